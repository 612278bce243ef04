"""Table options: names, types, defaults, checks and meanings."""
