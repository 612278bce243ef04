"""Compaction of a bucket: merge, lookup and changelog; and the job that compacts the buckets of a table."""
