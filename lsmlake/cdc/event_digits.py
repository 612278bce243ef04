"""The digits of numbers as change events write them: parsers of JSON read numbers with a fraction as DOUBLE. Pure."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_LOSES_DIGITS = r"^-?(?:[0-9.]{17,}|[0-9.]+[eE].*)$"
"""Numbers that the parser of JSON may have rounded: it reads those with a fraction as DOUBLE."""
_IS_ROUNDED = r"^-?[0-9]{16,}\.[0-9]*$|^-?[0-9.]+[eE].*$"
"""Whole numbers that the parser may have rounded, because they are written with a fraction or an exponent."""


def exact(texts: pa.Array, events: pa.Array, column: pa.Field) -> pa.Array:
    """The texts of the values of a column, with the digits of the numbers that the parser may have rounded."""
    loses = _LOSES_DIGITS if pa.types.is_decimal(column.type) else _IS_ROUNDED if pa.types.is_integer(column.type) else None
    if loses is None:
        return texts
    rounded = pc.fill_null(pc.match_substring_regex(texts, loses), False)
    if not pc.any(rounded).as_py():
        return texts
    return pc.replace_with_mask(texts, rounded, _as_written(texts.filter(rounded), events.filter(rounded), column.name))


def _as_written(doubles: pa.Array, events: pa.Array, name: str) -> pa.Array:
    """The numbers as their events write them. `doubles`: the numbers as DOUBLE, or texts of the events, which the parser has not
    rounded. If the field occurs with several numbers that round to the same DOUBLE, nothing tells which of them is meant: the
    text says so, and is no number."""
    is_text = _is_in_quotes(doubles, events)
    field = rf'"{_in_json(name)}"\s*:\s*(?P<number>-?[0-9][0-9.eE+-]*)'
    first, last = (pc.struct_field(pc.extract_regex(events, pattern), "number") for pattern in (f"(?s){field}", f"(?s).*{field}"))
    wanted = pc.if_else(is_text, "0", doubles).cast(pa.float64())
    first_fits, last_fits = (pc.fill_null(pc.equal(one.cast(pa.float64()), wanted), False) for one in (first, last))
    unsure = pc.binary_join_element_wise("more digits than a DOUBLE holds: ", doubles, "")
    of_one = pc.if_else(first_fits, first, pc.if_else(last_fits, last, unsure))
    differ = pc.and_kleene(pc.and_(first_fits, last_fits), pc.not_equal(first, last))
    return pc.if_else(is_text, doubles, pc.if_else(differ, unsure, of_one))


def _is_in_quotes(texts: pa.Array, events: pa.Array) -> pa.Array:
    """Flags the texts, which have no quotes, that are a string in their event."""
    parts = pc.split_pattern(events, '"')
    of_event = np.repeat(np.arange(len(events)), np.asarray(pc.list_value_length(parts)))
    found = np.asarray(pc.equal(parts.flatten(), texts.take(pa.array(of_event))))
    flags = np.zeros(len(events), bool)
    flags[of_event[found]] = True
    return pa.array(flags)


def _in_json(name: str) -> str:
    """A pattern that matches a name as JSON writes it, without its quotes."""
    forms = {re.escape(json.dumps(name, ensure_ascii=ascii_only)[1:-1]) for ascii_only in (True, False)}
    return f"(?:{'|'.join(sorted(forms))})"
