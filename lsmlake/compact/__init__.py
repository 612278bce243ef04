"""Compaction: which files of a bucket, the merge and lookup, the changelog, and the job over all buckets."""
