"""DELETE, UPDATE and MERGE as Spark plans: Catalyst evaluates conditions, values and joins, and tasks write rows and files."""
