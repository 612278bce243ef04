"""Functions on Arrow and NumPy arrays, independent of tables: key order, hashes, segments, groups, gathering rows."""
