"""Column types: their Arrow, Spark, DDL and JSON forms, order and text. A new type begins here."""
