"""Data files: reading and writing Parquet, pages, checksums, spills, and the files of one bucket."""
