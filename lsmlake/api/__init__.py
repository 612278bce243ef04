"""What users hold: `Lake`, `Table`, `Scan`, `Changes`; and what they pass in, as Arrow tables."""
