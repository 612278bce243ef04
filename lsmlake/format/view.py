"""A view: a query under a name, as a small JSON file in the folder of its database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from lsmlake.schema import envelope
from lsmlake.types.json_shape import TEXT, JsonKind, check, integer, listing, mapping, optional

_CURE = "create it anew: CREATE OR REPLACE VIEW"
_COLUMN = {"name": TEXT, "type": TEXT, "comment": optional(TEXT), "source": TEXT, "place": integer()}


def _is_column(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == _COLUMN.keys() and all(k.fits(value[name]) for name, k in _COLUMN.items())


_KINDS = {
    "text": TEXT,
    "columns": listing(JsonKind("the facts of a column", _is_column)),
    "database": optional(TEXT),
    "comment": optional(TEXT),
    "properties": mapping(TEXT),
    "create_time_ms": integer(0, 1 << 53),
}


class ViewColumn(NamedTuple):
    """A column of a view.

    Attributes:
        name: the name in the view.
        type: Spark's name of the type.
        comment: its description, if it has one.
        source: the name of the column in the result of the query.
        place: its number among the columns of the result with this name, from 0.
    """

    name: str
    type: str
    comment: str | None
    source: str
    place: int


@dataclass(frozen=True)
class View:
    """A query under a name.

    Attributes:
        text: the query.
        columns: the columns of the query when the view was created; the query must still have them.
        database: the database of the tables that the query names without a database.
        comment: a description.
        properties: properties set by the user.
        create_time_ms: when the view was created, in milliseconds since the epoch.
    """

    text: str
    columns: tuple[ViewColumn, ...]
    database: str | None
    comment: str | None
    create_time_ms: int
    properties: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        columns = [column._asdict() for column in self.columns]
        return envelope.wrap_json("view", {**asdict(self), "columns": columns, "properties": dict(self.properties)})

    @staticmethod
    def decode(data: bytes, where: str) -> View:
        """Decodes the file of a view. Raises Corrupt or UnsupportedFormat naming `where`."""
        content = envelope.unwrap_json("view", data, where)
        check("view", content, _KINDS, where, cure=_CURE)
        return View(**{**content, "columns": tuple(ViewColumn(**column) for column in content["columns"])})
