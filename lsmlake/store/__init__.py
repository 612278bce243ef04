"""All side effects: storages, data files, table metadata, spills, clock and ids. Other rooms are pure or call this one."""
