"""The types of the parameters of a statement, which its text implies. The driver of JDBC binds only values of the types that the
server has declared; other drivers send values of any type, which are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.sql_text import Text
from lsmlake.errors import LakeError

Schemas = Callable[[exp.Table], Mapping[str, pa.DataType]]
"""The columns of a table in a statement, by their names in small letters; none if it has none."""
_COMPARED = exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between
_COUNTED = exp.Limit, exp.Offset


def parameter_types(text: str, names: tuple[str | None, ...], schemas: Schemas) -> list[pa.DataType]:
    """A type for each parameter: that of the column that it is compared with, set to or inserted into; STRING if there is none.

    Args:
        text: a query, INSERT, UPDATE, DELETE or MERGE.
        names: the parameters, as `sql.parameters.Shape` has them.
        schemas: see `Schemas`.
    """
    if not names:
        return []
    tree = Text(text).parsed()
    found = sorted(tree.find_all(exp.Placeholder), key=lambda node: node.meta["start"])
    columns = _columns(tree, schemas)
    types: list[tuple[str | None, pa.DataType]] = []
    for node in found:
        name = node.name if node.this else None
        if name is None or name not in dict(types):
            types.append((name, _type(node, columns, schemas)))
    return [type_ for _, type_ in types]


def _columns(tree: exp.Expression, schemas: Schemas) -> dict[tuple[str, str], pa.DataType]:
    """(table or alias, column) -> type, in small letters; ("", column) for the first table with a column of this name."""
    columns: dict[tuple[str, str], pa.DataType] = {}
    for table in tree.find_all(exp.Table):
        try:
            schema = schemas(table)
        except LakeError:  # the statement fails when it is executed
            continue
        for name, type_ in schema.items():
            columns.setdefault(("", name), type_)
            columns.setdefault(((table.alias or table.name).lower(), name), type_)
    return columns


def _type(node: exp.Placeholder, columns: Mapping[tuple[str, str], pa.DataType], schemas: Schemas) -> pa.DataType:
    child, parent = node, node.parent
    while isinstance(parent, (exp.Paren, exp.Neg)):
        child, parent = parent, parent.parent
    if isinstance(parent, _COUNTED):
        return pa.int32()
    type_ = None
    if isinstance(parent, _COMPARED):
        column = next(parent.find_all(exp.Column), None)
        type_ = None if column is None else columns.get((column.table.lower(), column.name.lower()))
    elif isinstance(parent, exp.Tuple) and (insert := parent.find_ancestor(exp.Insert)) is not None:
        names = _inserted(insert, schemas)
        place = next(place for place, one in enumerate(parent.expressions) if one is child)
        type_ = columns.get(("", names[place])) if place < len(names) else None
    return pa.string() if type_ is None or pa.types.is_nested(type_) else type_


def _inserted(insert: exp.Insert, schemas: Schemas) -> list[str]:
    """The columns that get the values of a row, in small letters."""
    target = insert.this
    if isinstance(target, (exp.Schema, exp.Tuple)):
        return [one.name.lower() for one in target.expressions]
    try:
        return list(schemas(target))
    except LakeError:
        return []
