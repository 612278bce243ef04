"""Which rows and columns an UPDATE, DELETE or MERGE can change: by the key, the merge engine and the options of the table; and,
for a MERGE, by the values of its source, which limit the files to read.

More values of a source than `_LISTED` are listed only for the indexes of files, and rows are compared with their bounds, because
the join decides anyway. The limits are measured, on 200 files of 50,000 rows that are on a local disk, with a Bloom filter of a
rate of 1e-6: the filters of all files answer for 10,000 values in 0.2 s and for 100,000 in 0.9 s; to read the column takes 1 s.
More values would need a rate for which a filter is no smaller than the column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.lsm.merge.sequence import SequenceFields
from lsmlake.options.merge_options import DEDUPLICATE, PARTIAL_UPDATE
from lsmlake.predicate import Predicate, and_
from lsmlake.predicate.tree import And, Column, Compare, Constant, In, Literal
from lsmlake.schema.schema import Schema

_LISTED, _LISTED_FOR_INDEX = 10_000, 100_000
OLDER = "an update cannot make a row older by sequence.field: the row of the key would stay as it is"


def check_updatable(schema: Schema, names: Sequence[str], where: str) -> None:
    """Raises InvalidQuery unless the columns of rows can be updated."""
    if keys := [name for name in names if name in schema.primary_key]:
        raise InvalidQuery(
            "a key column cannot be updated",
            where=where,
            found=keys,
            cure="delete the rows and insert them with another key",
        )
    if not schema.append_only and (engine := schema.parsed_options.merge.engine) not in (DEDUPLICATE, PARTIAL_UPDATE):
        raise InvalidQuery(
            f"merge-engine = {engine} cannot update rows",
            where=where,
            expected=f"{DEDUPLICATE} or {PARTIAL_UPDATE}: under other engines a written row does not replace the row of its key",
            found=engine,
            cure="upsert rows that the merge engine combines with the present ones",
        )

    fixed = [name for name in names if name in schema.moving_columns]
    if fixed and schema.parsed_options.merge.engine == PARTIAL_UPDATE:
        raise InvalidQuery(
            f"merge-engine = {PARTIAL_UPDATE} cannot move a row to another partition: it is updated where it lies",
            where=where,
            found=fixed,
            cure="delete the rows and insert them again; or use deduplicate, which moves them",
        )


def check_deletable(schema: Schema, where: str) -> None:
    """Raises InvalidQuery if the table ignores deletes."""
    if not schema.append_only and schema.parsed_options.write.ignore_delete:
        raise InvalidQuery(
            "the table ignores deletes",
            where=where,
            found="ignore-delete = true",
            cure="unset ignore-delete first",
        )


def check_replaces(schema: Schema, old: pa.Table, new: pa.Table, names: Sequence[str]) -> None:
    """Raises InvalidData if new rows would not replace the old ones: they are older by `sequence.field`, or have a null under a
    merge engine for which null means "no change". `old` and `new`: the same rows before and after."""
    if schema.append_only:
        return
    merge = schema.parsed_options.merge
    sequence = SequenceFields(merge.sequence_field, merge.sequence_sort_order == "descending")
    if not {*sequence.columns}.isdisjoint(names):
        after, before = ({name: rows[name] for name in sequence.columns} for rows in (new, old))
        late = ~sequence.on_time(pa.table(after), pa.table({name: before[name].cast(after[name].type) for name in before}))
        if late.any():
            raise InvalidData(
                OLDER,
                where=f"columns {list(sequence.columns)}",
                found=f"{int(late.sum())} rows",
                cure="update to a value that is not older",
            )
    if merge.engine != PARTIAL_UPDATE:
        return
    for name in names:
        lost = pc.and_(pc.is_valid(old[name]), pc.is_null(new[name]))
        if pc.any(lost).as_py():
            raise InvalidData(
                f"under merge-engine = {PARTIAL_UPDATE} a null does not replace a value",
                where=f"column {name!r}",
                expected="a value",
                found=f"{pc.sum(lost).as_py()} rows whose value would become null",
                cure="update to another value, or delete the rows and insert them again",
            )


# -- the rows that a source can match ----------------------------------------------------------------------------------


class SourceValues(Protocol):
    """The values of the source of a MERGE. `columns`: the columns of the source."""

    columns: pa.Schema

    def distinct(self, column: str, most: int) -> pa.ChunkedArray | None:
        """The distinct values of a column, without null; None if there are more than `most`."""

    def bounds(self, column: str) -> tuple[object, object]:
        """The least and the greatest value of a column; None if it has no value."""


def candidates(schema: Schema, equal: Iterable[tuple[str, str]], source: SourceValues) -> Predicate | None:
    """A predicate that is true of every target row that matches a source row; None if nothing is known. `equal`: pairs of a
    target and a source column that must be equal; pairs whose values are not compared as stored are ignored."""
    indexed = schema.parsed_options.index.columns
    predicates = [
        _equal_to_source(
            Column((own,), schema.plain_columns.field(own).type), other, source, _LISTED_FOR_INDEX if own in indexed else _LISTED
        )
        for own, other in equal
    ]
    known = [predicate for predicate in predicates if predicate is not None]
    return and_(*known) if known else None


def of_rows(predicate: Predicate | None) -> Predicate | None:
    """A weaker or equal predicate that is quick to evaluate on rows. `predicate`: the result of `candidates`."""
    match predicate:
        case And(children):
            return and_(*map(of_rows, children))
        case In(column, values) if len(values) > _LISTED:
            low, high = pc.min_max(pa.array(values, column.type)).as_py().values()
            return _within(column, low, high)
    return predicate


def _equal_to_source(column: Column, source: str, values: SourceValues, most: int) -> Predicate | None:
    kind, given = column.type, values.columns.field(source).type
    integers = pa.types.is_integer(kind) and pa.types.is_integer(given)
    if not integers and (kind != given or pa.types.is_nested(kind) or pa.types.is_floating(kind)):
        return None
    listed = values.distinct(source, most)
    if listed is not None:
        fitting = [value for value in listed.to_pylist() if not integers or _holds(kind, value)]
        return In(column, tuple(fitting)) if fitting else Constant(False)
    low, high = values.bounds(source)
    if integers and not (_holds(kind, low) and _holds(kind, high)):
        return None
    return _within(column, low, high)


def _within(column: Column, low: object, high: object) -> Predicate:
    return and_(Compare(">=", column, Literal(low)), Compare("<=", column, Literal(high)))


def _holds(kind: pa.DataType, value: int) -> bool:
    """Whether the value fits an integer type."""
    return -(1 << kind.bit_width - 1) <= value < 1 << kind.bit_width - 1
