"""Maintenance of a table: alter, copy, verify, repair, listings; and the followers of a commit."""
