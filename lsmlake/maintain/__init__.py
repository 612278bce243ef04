"""Looking after a table: alter, verify, repair, listings."""
