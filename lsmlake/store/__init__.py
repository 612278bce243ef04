"""The one place with side effects: storages, data files, table metadata, spills, clock and ids."""
