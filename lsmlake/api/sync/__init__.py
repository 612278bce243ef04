"""A whole database kept in step by the change events of its tables: `Lake.sync`."""
