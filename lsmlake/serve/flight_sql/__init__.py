"""SQL over Arrow Flight: the statements of ADBC and JDBC drivers, run by `lake.sql`."""
