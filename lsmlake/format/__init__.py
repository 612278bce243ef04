"""What lies on disk, as values: files, manifests, snapshots, deletion vectors and paths. Bytes in, values out."""
