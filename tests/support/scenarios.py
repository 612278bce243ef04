"""Statements that change rows, as data: what each does to the same few rows, and what it leaves, on each kind of table.

The expected rows are written by hand, after the rules of Spark SQL. The runners are `test_scenarios.py`, in process by methods
and by SQL, and `test_spark_scenarios.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from naive import unreferenced
from strategies import rows_of

from lsmlake.api.table import Table
from lsmlake.errors import LakeError
from lsmlake.statements.attempts import DmlReport
from lsmlake.statements.clause import BY_SOURCE, DELETE, INSERT, MATCHED, NOT_MATCHED, UPDATE, Clause

DDL = "id INT NOT NULL, p STRING, v BIGINT, `s.1` STRING"
COLUMNS = pa.schema([("id", pa.int32()), ("p", pa.string()), ("v", pa.int64()), ("s.1", pa.string())])
KEY, VECTORS, COPY = "key", "vectors", "copy on write"
KINDS: Mapping[str, Mapping[str, object]] = {
    VECTORS: {"partition_by": ["p"]},
    COPY: {"partition_by": ["p"], "options": {"deletion-vectors.enabled": "false"}},
    KEY: {"partition_by": ["p"], "primary_key": ["p", "id"], "options": {"bucket": 2}},
}

R1, R2, R3, R4, R5 = START = (
    (1, "a", 10, "x"),
    (2, "a", 20, None),
    (3, "b", None, "y"),
    (4, "b", 40, "z"),
    (5, "c", 50, "x"),
)

# --- statements ---


@dataclass(frozen=True)
class Delete:
    where: str | None = None


@dataclass(frozen=True)
class Update:
    values: Mapping[str, str]
    where: str | None = None


@dataclass(frozen=True)
class Merge:
    """`source`: its columns; None: the table itself."""

    source: Mapping[str, Sequence] | None
    on: str
    clauses: Sequence[Clause]
    evolve: bool = False


@dataclass(frozen=True)
class Overwrite:
    rows: Sequence[tuple]
    where: str | None = None
    truncate: bool = False


@dataclass(frozen=True)
class Case:
    """`leaves`: the rows afterwards, or a part of the error. `counts`: inserted, updated, deleted. `unless`: kinds of tables on
    which the statement is refused, and a part of the error."""

    does: Delete | Update | Merge | Overwrite
    leaves: Sequence[tuple] | str
    counts: tuple[int, int, int] = (0, 0, 0)
    unless: Mapping[str, str] = field(default_factory=dict)

    def expected(self, kind: str) -> Sequence[tuple] | str:
        return self.unless.get(kind, self.leaves)


def update(values: Mapping[str, str] | None, when: str | None = None) -> Clause:
    return Clause(MATCHED, UPDATE, values, when)


def delete(when: str | None = None) -> Clause:
    return Clause(MATCHED, DELETE, condition=when)


def insert(values: Mapping[str, str] | None, when: str | None = None) -> Clause:
    return Clause(NOT_MATCHED, INSERT, values, when)


def update_others(values: Mapping[str, str], when: str | None = None) -> Clause:
    return Clause(BY_SOURCE, UPDATE, values, when)


def delete_others(when: str | None = None) -> Clause:
    return Clause(BY_SOURCE, DELETE, condition=when)


SAME = "t.p = s.p AND t.id = s.id"
SOURCE = {"id": [2, 4, 8, 9], "p": ["a", "b", "b", "d"], "v": [200, None, 800, 900], "s.1": ["n", "n", None, "n"]}
S2, S4, S8, S9 = zip(*SOURCE.values(), strict=True)
MOVED = {KEY: "a key column cannot be updated"}
TWICE = "several source rows match one row"

CASES: Mapping[str, Case] = {
    # --- DELETE
    "delete by a value": Case(Delete("v > 15"), [R1, R3], (0, 0, 3)),
    "delete: a null satisfies no condition, negated or not": Case(Delete("NOT (v > 15)"), [R2, R3, R4, R5], (0, 0, 1)),
    "delete of nulls": Case(Delete("v IS NULL OR `s.1` IS NULL"), [R1, R4, R5], (0, 0, 2)),
    "delete of a partition": Case(Delete("p = 'b'"), [R1, R2, R5], (0, 0, 2)),
    "delete in a partition": Case(Delete("p = 'b' AND v = 40"), [R1, R2, R3, R5], (0, 0, 1)),
    "delete by key": Case(Delete("p = 'a' AND id IN (2, 3)"), [R1, R3, R4, R5], (0, 0, 1)),
    "delete of all rows": Case(Delete(), [], (0, 0, 5)),
    "delete of no row": Case(Delete("v = -1"), START),
    "delete by an unknown column": Case(Delete("nothing = 1"), "nothing"),
    # --- UPDATE
    "update": Case(Update({"v": "v + 1"}, "`s.1` = 'x'"), [(1, "a", 11, "x"), R2, R3, R4, (5, "c", 51, "x")], (0, 2, 0)),
    "update: what is null stays null in a sum": Case(
        Update({"v": "v + id"}), [(1, "a", 11, "x"), (2, "a", 22, None), R3, (4, "b", 44, "z"), (5, "c", 55, "x")], (0, 5, 0)
    ),
    "update to null": Case(
        Update({"v": "NULL", "s.1": "upper(`s.1`)"}, "id = 4"), [R1, R2, R3, (4, "b", None, "Z"), R5], (0, 1, 0)
    ),
    "update of two columns by each other": Case(
        Update({"v": "length(`s.1`)", "s.1": "cast(v AS STRING)"}, "id < 3"),
        [(1, "a", 1, "10"), (2, "a", None, "20"), R3, R4, R5],
        (0, 2, 0),
    ),
    "update, names in other letters": Case(
        Update({"V": "ID * 100"}, "P = 'b' AND Id = 3"), [R1, R2, (3, "b", 300, "y"), R4, R5], (0, 1, 0)
    ),
    "update of no row": Case(Update({"v": "0"}, "p = 'z'"), START),
    "update of the partition": Case(
        Update({"p": "'z'"}, "p = 'b'"), [R1, R2, (3, "z", None, "y"), (4, "z", 40, "z"), R5], (0, 2, 0), MOVED
    ),
    "update to the null partition": Case(Update({"p": "NULL"}, "id = 5"), [R1, R2, R3, R4, (5, None, 50, "x")], (0, 1, 0), MOVED),
    "update of another type": Case(Update({"v": "'abc'"}), "does not fit"),
    "update out of range": Case(Update({"id": "id + 3000000000"}), "(?i)loss|range", unless=MOVED),
    "update to null where none may be": Case(Update({"id": "NULL"}), "NOT NULL", unless=MOVED),
    # --- MERGE: kinds of clauses
    "merge: update": Case(
        Merge(SOURCE, SAME, [update({"v": "t.v + coalesce(s.v, 1)"})]),
        [R1, (2, "a", 220, None), R3, (4, "b", 41, "z"), R5],
        (0, 2, 0),
    ),
    "merge: update of all columns": Case(Merge(SOURCE, SAME, [update(None)]), [R1, S2, R3, S4, R5], (0, 2, 0)),
    "merge: delete": Case(Merge(SOURCE, SAME, [delete()]), [R1, R3, R5], (0, 0, 2)),
    "merge: insert of values that fit": Case(
        Merge(SOURCE, SAME, [insert({"id": "s.id + 100", "p": "s.p", "v": "s.v / 100"})]),
        [*START, (108, "b", 8, None), (109, "d", 9, None)],
        (2, 0, 0),
    ),
    "merge: insert of a value that does not fit": Case(
        Merge(SOURCE, SAME, [insert({"id": "s.id", "p": "s.p", "v": "s.v / 7"})]), "(?i)loss|rounded"
    ),
    "merge: insert of some columns": Case(
        Merge(SOURCE, SAME, [insert({"id": "s.id + 100", "p": "s.p"})]),
        [*START, (108, "b", None, None), (109, "d", None, None)],
        (2, 0, 0),
    ),
    "merge: insert of all columns": Case(Merge(SOURCE, SAME, [insert(None)]), [*START, S8, S9], (2, 0, 0)),
    "merge: update or insert": Case(Merge(SOURCE, SAME, [update(None), insert(None)]), [R1, S2, R3, S4, R5, S8, S9], (2, 2, 0)),
    "merge: the first clause that applies counts": Case(
        Merge(
            SOURCE,
            SAME,
            [
                update({"s.1": "'first'"}, "t.v = 20"),
                delete("s.v IS NULL"),
                update({"s.1": "'third'"}),
                insert({"id": "s.id", "p": "s.p", "s.1": "'fourth'"}, "s.v > 850"),
                insert({"id": "-s.id", "p": "s.p"}),
            ],
        ),
        [R1, (2, "a", 20, "first"), R3, R5, (9, "d", None, "fourth"), (-8, "b", None, None)],
        (2, 1, 1),
    ),
    "merge: a condition that is null does not apply": Case(Merge(SOURCE, SAME, [delete("s.v > 0")]), [R1, R3, R4, R5], (0, 0, 1)),
    "merge: delete of what the source lacks": Case(Merge(SOURCE, SAME, [delete_others()]), [R2, R4], (0, 0, 3)),
    "merge: update of what the source lacks": Case(
        Merge(SOURCE, SAME, [update_others({"v": "t.v * 2"}, "t.p <> 'c'")]), [(1, "a", 20, "x"), R2, R3, R4, R5], (0, 2, 0)
    ),
    "merge: every kind of clause": Case(
        Merge(
            SOURCE,
            SAME,
            [
                update(None, "s.v > 0"),
                delete(),
                insert(None, "s.p = 'd'"),
                update_others({"v": "-1"}, "t.v IS NULL"),
                delete_others("t.v = 50"),
            ],
        ),
        [R1, S2, (3, "b", -1, "y"), S9],
        (1, 2, 2),
    ),
    "merge: no clause applies": Case(Merge(SOURCE, SAME, [update(None, "s.v < 0"), insert(None, "s.v < 0")]), START),
    # --- MERGE: matches
    "merge: several source rows match": Case(Merge({"id": [1, 1]}, "t.id = s.id", [update({"v": "0"})]), TWICE),
    "merge: several match, a clause applies to one": Case(
        Merge({"id": [1, 1], "w": [1, 2]}, "t.id = s.id", [update({"v": "0"}, "s.w = 1")]), TWICE
    ),
    "merge: several match a sole delete": Case(Merge({"id": [1, 1, 4, 4]}, "t.id = s.id", [delete()]), [R2, R3, R5], (0, 0, 2)),
    "merge: several match a delete with a condition": Case(Merge({"id": [1, 1]}, "t.id = s.id", [delete("s.id = 1")]), TWICE),
    "merge: several match, only inserts": Case(
        Merge({"id": [1, 1, 7]}, "t.id = s.id", [insert({"id": "s.id", "p": "'q'"})]), [*START, (7, "q", None, None)], (1, 0, 0)
    ),
    "merge: null equals nothing": Case(Merge({"v": [None, 40]}, "t.v = s.v", [delete()]), [R1, R2, R3, R5], (0, 0, 1)),
    "merge: null-safe equality": Case(Merge({"v": [None, 40]}, "t.v <=> s.v", [delete()]), [R1, R2, R5], (0, 0, 2)),
    "merge: a condition that is no equality": Case(
        Merge({"low": [15]}, "t.v > s.low", [update({"v": "s.low"})]),
        [R1, (2, "a", 15, None), R3, (4, "b", 15, "z"), (5, "c", 15, "x")],
        (0, 3, 0),
    ),
    "merge: one source row matches several rows": Case(
        Merge({"s.1": ["x"]}, "t.`s.1` = s.`s.1`", [update({"v": "t.v + 1"})]),
        [(1, "a", 11, "x"), R2, R3, R4, (5, "c", 51, "x")],
        (0, 2, 0),
    ),
    "merge: the partition alone": Case(Merge({"p": ["a", "q"]}, "t.p = s.p", [delete()]), [R3, R4, R5], (0, 0, 2)),
    "merge: rows move to another partition": Case(
        Merge({"id": [1]}, "t.id = s.id", [update({"p": "'z'"})]), [(1, "z", 10, "x"), R2, R3, R4, R5], (0, 1, 0), MOVED
    ),
    # --- MERGE: sources
    "merge: a source without rows": Case(
        Merge({"id": pa.array([], pa.int32())}, "t.id = s.id", [update({"v": "0"}), insert({"id": "s.id"})]), START
    ),
    "merge: a source without rows deletes all": Case(
        Merge({"id": pa.array([], pa.int32())}, "t.id = s.id", [delete_others()]), [], (0, 0, 5)
    ),
    "merge: the table itself": Case(
        Merge(None, "t.id = s.id + 1", [update({"v": "s.v"})]),
        [R1, (2, "a", 10, None), (3, "b", 20, "y"), (4, "b", None, "z"), (5, "c", 40, "x")],
        (0, 4, 0),
    ),
    "merge: a source with a further column": Case(
        Merge({"id": [1], "w": ["new"]}, "t.id = s.id", [update({"w": "s.w"})], evolve=True),
        [(1, "a", 10, "x", "new"), *((*row, None) for row in START[1:])],
        (0, 1, 0),
    ),
    "merge: a source without the columns of *": Case(
        Merge({"id": [1]}, "t.id = s.id", [update(None)]), "the source lacks columns"
    ),
    "merge: a clause that can never apply": Case(
        Merge({"id": [1]}, "t.id = s.id", [delete(), update({"v": "0"})]), "can never apply"
    ),
    "merge: an unknown column": Case(Merge({"id": [1]}, "t.id = s.nothing", [delete()]), "nothing"),
    # --- overwrite
    "overwrite of the partitions of the data": Case(Overwrite([(7, "b", 70, "w")]), [R1, R2, R5, (7, "b", 70, "w")]),
    "overwrite by condition": Case(Overwrite([(7, "b", 70, "w")], "p IN ('b', 'c')"), [R1, R2, (7, "b", 70, "w")]),
    "overwrite of everything": Case(Overwrite([(7, "q", 70, "w")], truncate=True), [(7, "q", 70, "w")]),
    "overwrite with a row elsewhere": Case(Overwrite([(7, "q", 70, "w")], "p = 'b'"), "outside of the partitions"),
}

# --- by the methods of a table ---


def run(table: Table, does: Delete | Update | Merge | Overwrite, source: object) -> DmlReport | None:
    """Carries out a statement. `source`: that of a merge, or the rows of an overwrite."""
    match does:
        case Delete(where):
            return table.delete(where)
        case Update(values, where):
            return table.update(values, where)
        case Overwrite(_, where, truncate):
            table.overwrite(source, where, truncate)
            return None
    merge = table.merge(source, does.on, evolve=does.evolve)
    for clause in does.clauses:
        named = {} if clause.action == DELETE or clause.values is None else {"values": clause.values}
        verb = f"{clause.action}{'_all' if clause.action != DELETE and clause.values is None else ''}"
        merge = getattr(merge, f"when_{clause.when.replace(' ', '_')}_{verb}")(**named, condition=clause.condition)
    return merge.execute()


def counts(done: DmlReport | None) -> tuple[int, int, int]:
    """The rows inserted, updated and deleted."""
    return (0, 0, 0) if done is None else (done.inserted, done.updated, done.deleted)


@contextmanager
def named(kind: str, case: str) -> Iterator[None]:
    """An error of the body tells the kind of table and the case."""
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        raise AssertionError(f"{kind}: {case}") from error


def given(case: Case) -> pa.Table | None:
    """The source of a merge, or the rows of an overwrite; None: the table itself, or the statement has none."""
    if isinstance(case.does, Overwrite):
        return batch(case.does.rows)
    return None if not isinstance(case.does, Merge) or case.does.source is None else pa.table(dict(case.does.source))


def batch(rows: Sequence[tuple]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], COLUMNS)


# --- as SQL ---


def sql(does: Delete | Update | Merge | Overwrite) -> str | None:
    """The statement as text, on table `d.t` and the data `source`; None if SQL has no such statement."""
    match does:
        case Delete(where):
            return f"DELETE FROM d.t{_where(where)}"
        case Update(values, where):
            return f"UPDATE d.t SET {_assigned(values)}{_where(where)}"
        case Merge(source, on, clauses, False):
            using = "d.t" if source is None else "source"
            return " ".join([f"MERGE INTO d.t AS t USING {using} AS s ON {on}", *map(_clause, clauses)])
    return None


def _where(where: str | None) -> str:
    return "" if where is None else f" WHERE {where}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _assigned(values: Mapping[str, str]) -> str:
    return ", ".join(f"{_quoted(name)} = {text}" for name, text in values.items())


def _clause(clause: Clause) -> str:
    when = f"WHEN {clause.when.upper()}" + ("" if clause.condition is None else f" AND {clause.condition}")
    if clause.action == DELETE:
        return f"{when} THEN DELETE"
    if clause.action == UPDATE:
        return f"{when} THEN UPDATE SET {'*' if clause.values is None else _assigned(clause.values)}"
    if clause.values is None:
        return f"{when} THEN INSERT *"
    return f"{when} THEN INSERT ({', '.join(map(_quoted, clause.values))}) VALUES ({', '.join(clause.values.values())})"


def leaves(table: Table, case: Case, kind: str, statement: Callable[[], tuple[int, int, int]]) -> None:
    """The statement leaves what the case says, in at most one commit; an error changes nothing."""
    before, expected = table.meta.snapshots.latest_id(), case.expected(kind)
    if isinstance(expected, str):
        with pytest.raises(LakeError, match=expected):
            statement()
        expected = START
    else:
        assert statement() == case.counts
    found = rows_of(table.scan().to_arrow())
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    changes = sorted(found, key=repr) != sorted(START, key=repr)
    altered = isinstance(case.does, Merge) and case.does.evolve
    assert table.meta.snapshots.latest_id() - before == changes + altered
    assert unreferenced(table) == []
