"""Deletes rows by condition. In an append-only table by position; under a primary key by key, through the merge engine."""

from __future__ import annotations

from lsmlake.commit.replay import Identity
from lsmlake.options.isolation import SERIALIZABLE
from lsmlake.predicate import Predicate
from lsmlake.read.plan import plan
from lsmlake.read.positions import matched
from lsmlake.read.scan import read_plan
from lsmlake.store.version import Version
from lsmlake.write.keys_read import KeysRead
from lsmlake.write.prepare import Request, delete_columns
from lsmlake.write.row_edit import replace_rows, rewritten
from lsmlake.write.statement import DmlReport
from lsmlake.write.upsert import inline_picker
from lsmlake.write.upsert_tables import upsert_tables


def delete(version: Version, predicate: Predicate | None, isolation: str) -> DmlReport:
    """Deletes the rows for which `predicate` is true; None: all rows. Raises Overtaken."""
    if version.schema.append_only:
        return _by_position(version, predicate, isolation)
    return _by_key(version, predicate, isolation)


def _by_position(version: Version, predicate: Predicate | None, isolation: str) -> DmlReport:
    removed = matched(plan(version, predicate))
    snapshot = replace_rows(version, removed, (), predicate, isolation == SERIALIZABLE, rewritten)
    return DmlReport(snapshot, deleted=sum(one.rows for one in removed))


def _by_key(version: Version, predicate: Predicate | None, isolation: str) -> DmlReport:
    columns = delete_columns(version.schema, Request(deletes=True))
    read = KeysRead(version, predicate, isolation == SERIALIZABLE)
    tables = read.noting(read_plan(plan(version, predicate, columns)))
    request = Request(deletes=True, check=read.check)
    snapshot = upsert_tables(version, tables, request, Identity(version.meta.env.ids()), inline_picker(version, None))
    return DmlReport(snapshot, deleted=read.rows)
