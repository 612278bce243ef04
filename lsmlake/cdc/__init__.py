"""Row changes: between two snapshots, or followed from commit to commit."""
