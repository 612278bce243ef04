"""Row changes: between two snapshots, and followed as they are committed."""
