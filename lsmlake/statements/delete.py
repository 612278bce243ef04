"""Deletes rows by condition. In an append-only table by position; under a primary key by key, through the merge engine."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lsmlake.commit.request import Identity
from lsmlake.options.write_options import SERIALIZABLE
from lsmlake.predicate import Predicate
from lsmlake.read.plan import plan
from lsmlake.read.positions import matched
from lsmlake.read.scan import read_plan
from lsmlake.statements.attempts import DmlReport
from lsmlake.tables.version import Version
from lsmlake.write.changeable import check_deletable
from lsmlake.write.prepare import delete_columns
from lsmlake.write.read_set import KeysUnchanged, ReadSet
from lsmlake.write.request import WriteRequest
from lsmlake.write.row_edit import replace_rows, rewritten
from lsmlake.write.write import write_tables


def delete(version: Version, predicate: Predicate | None, isolation: str) -> DmlReport:
    """Deletes the rows for which `predicate` is true; None: all rows. Raises Overtaken."""
    wanted = ReadSet(predicate) if isolation == SERIALIZABLE else None
    if version.schema.append_only:
        return _by_position(version, predicate, wanted)
    return _by_key(version, predicate, wanted)


def _by_position(version: Version, predicate: Predicate | None, wanted: ReadSet | None) -> DmlReport:
    removed = matched(plan(version, predicate))
    snapshot = replace_rows(version, removed, (), wanted, rewritten)
    return DmlReport(snapshot, deleted=sum(one.rows for one in removed))


def _by_key(version: Version, predicate: Predicate | None, wanted: ReadSet | None) -> DmlReport:
    check_deletable(version.schema, version.meta.paths.root)
    columns, deleted = delete_columns(version.schema, WriteRequest(deletes=True)), 0

    def keys() -> Iterator[pa.Table]:
        nonlocal deleted
        for table in read_plan(plan(version, predicate, columns)):
            deleted += table.num_rows
            yield table

    identity = Identity(version.meta.env.ids())
    request = WriteRequest(identity, deletes=True, of_rows=True, requires=(KeysUnchanged(version, wanted),))
    snapshot = write_tables(version, keys(), request)
    return DmlReport(snapshot, deleted=deleted)
