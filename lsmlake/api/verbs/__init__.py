"""The verbs of what users hold: those of a table, and those of a lake."""
