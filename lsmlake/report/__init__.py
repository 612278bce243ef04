"""Pictures and tables for terminals."""
