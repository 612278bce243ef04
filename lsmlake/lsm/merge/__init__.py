"""How rows of one key become one row."""
