"""The schema that a sequence of alterations gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from lsmlake.errors import InvalidOption
from lsmlake.schema.alterations.alteration import Alteration
from lsmlake.schema.alterations.columns import needs_default
from lsmlake.schema.alterations.draft import Draft
from lsmlake.schema.defaults import INITIAL, default_of
from lsmlake.schema.schema import Schema
from lsmlake.types import types


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
