"""SQL text, in Spark's dialect and meaning, as predicates."""
