"""Which rows and columns an UPDATE, DELETE or MERGE can change, by the key, the merge engine and the options of the table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.lsm.merge.sequence import SequenceFields
from lsmlake.options.merge_options import DEDUPLICATE, PARTIAL_UPDATE
from lsmlake.schema.schema import Schema

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
    merge engine to which null means no change. `old` and `new`: the same rows before and after."""
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
