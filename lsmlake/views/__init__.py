"""View tables: tables that hold the rows of a query, and are kept by the changes of the tables that the query reads."""
