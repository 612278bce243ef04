"""Upserts: prepare a batch, route its rows to buckets, write level-0 runs, commit."""
