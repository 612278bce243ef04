"""lsmlake: primary-key and append-only tables on the data lake, embedded in a Python process or on PySpark. Start with `connect`.

The public names load on first use, so that `import lsmlake` and `lsmlake --help` cost next to nothing. `__init__.pyi` tells type
checkers and editors where they come from.
"""

from importlib import import_module

from lsmlake import errors

__version__ = "0.1.0"

_HOMES = {
    "ANY": "lsmlake.write.order",
    "ChangeBatch": "lsmlake.api.following",
    "Changes": "lsmlake.api.changes",
    "CompactionReport": "lsmlake.compact.job",
    "DmlReport": "lsmlake.statements.attempts",
    "Lake": "lsmlake.api.lake",
    "RefreshReport": "lsmlake.maintain.refresh_report",
    "Result": "lsmlake.api.readable",
    "Merge": "lsmlake.api.table_verbs.statements",
    "Scan": "lsmlake.api.scan",
    "SyncReport": "lsmlake.api.sync.sync_report",
    "ScanSplit": "lsmlake.api.scan_split",
    "Table": "lsmlake.api.table",
    "connect": "lsmlake.warehouse",
    "register": "lsmlake.warehouse",
    "ship": "lsmlake.warehouse",
    **dict.fromkeys(
        (
            "add_column",
            "add_partition_field",
            "change_type",
            "drop_column",
            "drop_default",
            "drop_not_null",
            "drop_partition_field",
            "move_column",
            "rename_column",
            "replace_partition_field",
            "set_comment",
            "set_default",
            "set_not_null",
            "set_option",
            "unset_option",
        ),
        "lsmlake.api.alterations",
    ),
}
"""Public name -> the module that defines it."""
_MODULES = ("cdc",)
"""Public modules that load on first use."""

__all__ = ["errors", *_MODULES, *_HOMES]  # noqa: PLE0604 - ruff does not evaluate it


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
