"""The public classes: `Lake`, `Table`, `Scan`, `Changes`."""
