"""Parses SQL text into predicates, with Spark's dialect and semantics."""
