"""Row changes: between two snapshots, or followed from commit to commit; and change events of other systems, decoded to rows."""

from importlib import import_module

_HOMES = {"ChangeFormat": "lsmlake.cdc.event_formats", "decode": "lsmlake.warehouse"}
"""Public name -> the module that defines it."""

__all__ = [*_HOMES]  # noqa: PLE0604 - ruff does not evaluate it


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value
