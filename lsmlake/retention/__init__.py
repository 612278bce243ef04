"""Expiry of snapshots, changelogs, tags and partitions, and removal of orphan files."""
