"""What expires: snapshots, changelogs, tags, partitions, orphan files; and the work after a commit."""
