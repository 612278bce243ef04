"""Functions on Arrow and NumPy arrays that know no table: key order, hashes, segments, groups, gathering rows."""
