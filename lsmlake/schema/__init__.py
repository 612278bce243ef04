"""Columns and types: DDL text, field ids, row kinds, and conversion of rows to a schema."""
