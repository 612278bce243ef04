"""Looking after a table: alter, copy, verify, repair, listings; and what follows a commit."""
