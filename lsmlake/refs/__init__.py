"""Tags, branches, pins and rollbacks, which reference snapshots beside the newest one; and which files are referenced."""
