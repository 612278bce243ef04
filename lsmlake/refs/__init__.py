"""What names a snapshot beside the newest one: tags, branches, pins, rollbacks; and which files are referenced."""
