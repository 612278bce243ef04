"""Formats listings, summaries and pictures of tables for terminals and as plain text."""
