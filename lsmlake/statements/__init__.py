"""Statements that change rows: DELETE, UPDATE and MERGE, as one clause model that this process and Spark evaluate."""
