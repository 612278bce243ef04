"""Reads a snapshot: plan, splits, rows; point lookups; time travel."""
