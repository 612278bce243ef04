"""The adapter by which dbt works on a lake, in process. dbt looks for an adapter and its macros in packages of its own: the
folder `namespace` is installed there, and imports this room. Nothing else of the library does."""
