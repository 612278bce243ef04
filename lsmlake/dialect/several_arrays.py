"""Functions of several arrays."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, array_argument, counted, tightest
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import BOOLEAN, array_of, quoted
from lsmlake.dialect.zeros import one_zero
from lsmlake.types.type_text import format_type

UNIQUE = "list_filter({0}, lambda e, i: list_position({0}, e) = i)"
"""The elements of an array, each where it first stands."""
_HAS = "list_position({1}, e) IS NOT NULL"
_SHARED = f"len(list_filter({{0}}, lambda e: e IS NOT NULL AND {_HAS})) > 0"
_NULL_INSIDE = "len({0}) > 0 AND len({1}) > 0 AND (list_position({0}, NULL) IS NOT NULL OR list_position({1}, NULL) IS NOT NULL)"


def _both(template: str, gives: pa.DataType | None = None) -> Function:
    """A function of two arrays of one type; null if one of them is null. `gives`: the type of the result, if it is not theirs."""

    def made(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
        typed = [array_argument(context, node, one) for one in counted(context, node, arguments, 2)]
        element = tightest(*(one.type.value_type for one in typed))
        if element is None:
            found = " and ".join(format_type(one.type) for one in typed)
            context.text.refuse(node, "the types do not fit together", found=found, cure="cast one of them")
        kind = array_of(element)
        left, right = (one_zero(context.converted(*pair, kind), kind) for pair in zip(arguments, typed, strict=True))
        sql = f"CASE WHEN ({left}) IS NOT NULL AND ({right}) IS NOT NULL THEN {template.format(left, right)} END"
        return Typed(sql, gives or kind)

    return made


def _zip(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    """An array of STRUCTs. A field has the name of the column that its values are from, or its number."""
    typed = [array_argument(context, node, made) for made in counted(context, node, arguments, *range(1, 100))]
    names = [one.alias_or_name if isinstance(one, (exp.Column, exp.Alias)) else str(i) for i, one in enumerate(arguments)]
    fields = ", ".join(f"{quoted(name)} := e[{place}]" for place, name in enumerate(names, 1))
    given = " AND ".join(f"({made.sql}) IS NOT NULL" for made in typed)
    rows = f"list_transform(list_zip({', '.join(made.sql for made in typed)}), lambda e: struct_pack({fields}))"
    kind = pa.struct([pa.field(name, made.type.value_type) for name, made in zip(names, typed, strict=True)])
    return Typed(f"CASE WHEN {given} THEN {rows} END", array_of(kind))


FUNCTIONS: dict[str, Function] = {
    "array_except": _both(f"list_filter({UNIQUE}, lambda e: NOT ({_HAS}))"),
    "array_intersect": _both(f"list_filter({UNIQUE}, lambda e: {_HAS})"),
    "array_union": _both(UNIQUE.format("list_concat({0}, {1})")),
    "arrays_overlap": _both(f"CASE WHEN {_SHARED} THEN true WHEN {_NULL_INSIDE} THEN NULL ELSE false END", BOOLEAN),
    "arrays_zip": _zip,
}
