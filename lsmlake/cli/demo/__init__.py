"""A year of real flights through one table: what `lsmlake demo` runs."""
