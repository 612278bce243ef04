"""One bucket as a tree of files: levels, sections, lookup, merging, and which compaction is next."""
