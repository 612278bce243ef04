"""What the events of one table of another system say of its columns and its key. Pure.

Events that declare their types differently, as before and after an alteration, are told apart: each is one `SourceTable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lsmlake.cdc.declared_types import READERS, key_names
from lsmlake.cdc.event_formats import ChangeFormat
from lsmlake.cdc.inferred_types import Kinds
from lsmlake.errors import InvalidSchema

_DOCUMENT_KEY = "_id"


@dataclass(frozen=True)
class SourceTable:
    """A table of another system, as some of its events describe it.

    Attributes:
        name: "database.table" or "database.schema.table".
        types: the text by which these events are told apart from others of the table; None: they declare no types.
        columns: column -> its type; None: it has had no value yet.
        key: the names of the key columns; empty: unknown.
        declared: the events declare the types.
        wrong: why the description cannot be read; "": it can.
    """

    name: str
    types: str | None
    columns: Mapping[str, pa.DataType | None]
    key: tuple[str, ...]
    declared: bool
    wrong: str = ""

    @property
    def untyped(self) -> tuple[str, ...]:
        """The columns without a type."""
        return tuple(name for name, type_ in self.columns.items() if type_ is None)


def described(format: ChangeFormat, name: str, types: str | None, keys: Iterable[str], kinds: Kinds) -> SourceTable:
    """The table that events in JSON describe: by the text of their types or, without one, by the kinds of their values. `keys`:
    what different events say of the key."""
    given, columns, wrong = format.events, kinds, ""
    try:
        if types is not None:
            columns = READERS[format.name](types)
    except (ValueError, TypeError, AttributeError, KeyError) as broken:
        columns, wrong = {}, f"the types of the events cannot be read: {broken}"
    known = dict.fromkeys(key for text in keys if text for key in _keys(text, bool(given.key)))
    key = (_DOCUMENT_KEY,) if given.document else tuple(known)
    if given.document:
        columns = {_DOCUMENT_KEY: None, **columns}  # the key comes first
    return SourceTable(name, types, columns, key, types is not None, wrong)


def _keys(text: str, is_list: bool) -> tuple[str, ...]:
    try:
        return key_names(text, is_list)
    except (ValueError, TypeError):  # no list of names says nothing of the key
        return ()


def check_described(table: SourceTable) -> None:
    """Raises InvalidSchema for a description that cannot be read."""
    if table.wrong:
        raise InvalidSchema(table.wrong, where=table.name, found=table.types, cure="correct the source of the events")
