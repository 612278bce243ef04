"""The schema that a sequence of alterations gives.

The alterations that add what the columns of new data have and a table lacks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lsmlake.errors import InvalidOption
from lsmlake.kernels import nested
from lsmlake.schema.alterations.columns import AddColumn, needs_default
from lsmlake.schema.alterations.draft import Alteration, Draft
from lsmlake.schema.defaults import INITIAL, default_of
from lsmlake.schema.fields import Siblings, shown
from lsmlake.schema.schema import Schema
from lsmlake.types import types
from lsmlake.types.types import sized_text, with_sized_text


def altered(schema: Schema, alterations: Sequence[Alteration], id: int, time_ms: int, where: str) -> Schema:
    """Returns the schema after `schema`, with all alterations applied in order.

    Raises:
        InvalidSchema: An alteration is impossible.
        InvalidOption: An option is unknown, or contradicts the columns or other options.
    """
    draft = Draft(
        tuple(schema.columns),
        schema.highest_field_id,
        schema.primary_key,
        schema.partitioning,
        schema.partitioning.spec.fields,
        dict(schema.options),
        schema.comment,
        where,
    )
    for each in alterations:
        if not isinstance(each, Alteration):
            raise InvalidOption(
                "not an alteration",
                where=where,
                expected="the result of lsmlake.set_option, add_column, rename_column, drop_column or the like",
                found=repr(each),
                cure="pass alterations",
            )
        draft = each.apply(draft)
    for field in draft.columns:
        if types.field_id(field) > schema.highest_field_id and not field.nullable and default_of(field, INITIAL) is None:
            raise needs_default(field, where)
    return replace(schema, comment=draft.comment).successor(
        pa.schema(draft.columns),
        draft.highest_field_id,
        draft.primary_key,
        draft.partitioning.with_fields(draft.fields),
        draft.options,
        id,
        time_ms,
        where,
    )


def additions(found: pa.Schema, schema: Schema, ignored: Collection[str] = ()) -> list[Alteration]:
    """Returns what adds the columns of `found` that a table lacks, and the fields that its structs lack, nullable at all levels,
    in their order. `ignored`: columns of the data that are not stored. Raises InvalidSchema for a type that no column has."""
    wanted = [field for field in found if field.name not in ignored]
    return list(_additions((), wanted, tuple(schema.columns)))


def _additions(parent: tuple[str, ...], found: Sequence[pa.Field], known: Siblings) -> Iterator[Alteration]:
    by_name = {field.name.lower(): field for field in known}
    for field in found:
        path = (*parent, field.name)
        there = by_name.get(field.name.lower())
        if there is None:
            type_ = nested.nullable(types.canonical(field.type, shown(path)))
            yield AddColumn(path, with_sized_text(pa.field(field.name, type_), sized_text(field)), None, False, None, None)
        else:
            inside = types.inner_fields(there.type)
            yield from _additions((*parent, there.name), _found_inside(field.type, there.type, inside), inside)


def _found_inside(found: pa.DataType, there: pa.DataType, inside: Siblings) -> list[pa.Field]:
    """Returns the fields inside a type of the data, named as in the nested type that the table has; none if it is of another
    kind. A type of the data can have parts without a type, such as the elements of lists that are all empty."""
    t = pa.types
    if t.is_struct(there) and t.is_struct(found):
        return list(found)
    lists = t.is_list(found) or t.is_large_list(found) or t.is_fixed_size_list(found)
    if t.is_list(there) and lists:
        return [found.value_field.with_name(inside[0].name)]
    if t.is_map(there) and t.is_map(found):
        return [one.with_name(own.name) for one, own in zip(types.inner_fields(found), inside, strict=True)]
    return []
