"""The on-disk format as values: files, manifests, snapshots, deletion vectors and paths. Pure: bytes in, values out."""
