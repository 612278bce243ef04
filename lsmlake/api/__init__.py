"""What users hold: `Lake`, `Table`, `Scan`, `Changes`."""
