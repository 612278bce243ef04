"""Columns and their types: DDL text, field ids, row kinds, and fitting rows to a schema."""
