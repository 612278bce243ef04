"""All side effects: named byte strings, clocks, ids. Storages for local files, object stores and memory."""
