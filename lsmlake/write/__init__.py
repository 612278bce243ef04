"""Writing rows: prepare a batch, route it to buckets, write level 0, upsert."""
