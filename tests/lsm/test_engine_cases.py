"""Merge engines, case by case, in the notation of Apache Paimon's tests: row = (k, f1, f2 ...), in order of arrival.

Every case runs on every way rows can meet: in one batch, in commits that wait at level 0, in commits each compacted at once, and
in all of these after a full compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from effort import in_turn
from strategies import new_lake

from lsmlake.api.table import Table
from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.errors import InvalidData, InvalidOption
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.lsm.cover import Covers
from lsmlake.write.bucket_writer import split, write_level0
from lsmlake.write.prepare import prepare
from lsmlake.write.write import picker

PARTIAL, AGGREGATION, FIRST_ROW, DEDUPLICATE = "partial-update", "aggregation", "first-row", "deduplicate"
NULL = None


class Case(NamedTuple):
    """Column types (the first is the key `k`, then f1, f2 ... unless named), options, rows, and those that stand at the end."""

    engine: str
    columns: str
    options: dict[str, object]
    rows: list[tuple]
    expected: list[tuple]


def D(*row: object) -> tuple:
    return ("-D", *row)


def U(*row: object) -> tuple:
    """-U."""
    return ("-U", *row)


def ints(count: int) -> str:
    return ", ".join(["k INT", *(f"f{i} INT" for i in range(1, count + 1))])


def table_of(case: Case) -> Table:
    return new_lake().create_table("d.t", case.columns, primary_key=["k"], options={"merge-engine": case.engine, **case.options})


def batch(table: Table, rows: Sequence[tuple]) -> pa.Table:
    kinds = [row[0] if isinstance(row[0], str) and row[0] in ("-D", "-U") else "+I" for row in rows]
    plain = [row[1:] if kind != "+I" else row for kind, row in zip(kinds, rows, strict=True)]
    columns = [pa.array(column, field.type) for column, field in zip(zip(*plain, strict=True), table.schema, strict=True)]
    made = pa.table(columns, schema=pa.schema([field.with_nullable(True) for field in table.schema]))
    return made.append_column("op", pa.array(kinds))


def scanned(table: Table, mode: str = "fresh") -> list[tuple]:
    found = table.scan(mode=mode).to_arrow()
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


def one_batch(table: Table, rows: Sequence[tuple]) -> None:
    table.upsert(batch(table, rows), row_kind="op", compact=False)


def waiting(table: Table, rows: Sequence[tuple]) -> None:
    for row in rows:
        table.upsert(batch(table, [row]), row_kind="op", compact=False)


def compacted(table: Table, rows: Sequence[tuple]) -> None:
    for row in rows:
        table.upsert(batch(table, [row]), row_kind="op")
        assert scanned(table, "raw") == scanned(table)


def in_turns(table: Table, rows: Sequence[tuple]) -> None:
    """Every other commit waits for the next."""
    for number, row in enumerate(rows):
        table.upsert(batch(table, [row]), row_kind="op", compact=number % 2 == 1)


def inline(table: Table, rows: Sequence[tuple]) -> None:
    for row in rows:
        table.upsert(batch(table, [row]), row_kind="op")


WAYS: list[Callable[[Table, Sequence[tuple]], None]] = [one_batch, waiting, compacted, in_turns]

GROUPS = {"fields.f3.sequence-group": "f1,f2", "fields.f6.sequence-group": "f4,f5"}
P7 = GROUPS | {"partial-update.remove-record-on-sequence-group": "f6"}
PAIRS = {"fields.f3,f4.sequence-group": "f1,f2", "fields.f7,f8.sequence-group": "f5,f6"}
P3_ROWS = [(1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 2, 2, 2, NULL)]
P4_ROWS = [*P3_ROWS, (1, 3, 3, 1, 3, 3, 3)]
P12 = {
    "fields.f1.sequence-group": "f2,f3",
    "fields.f2.aggregate-function": "first_value",
    "fields.f3.aggregate-function": "last_value",
}
P13_COLUMNS = "k INT, a INT, b INT, g1 INT, c STRING, g2 INT"
P13 = {"fields.g1.sequence-group": "a", "fields.g2.sequence-group": "c", "fields.a.aggregate-function": "sum"}
P13_ROWS = [(1, 1, 1, 1, "1", 1), (1, 2, 2, 2, "2", NULL)]
DOC = {"fields.a.sequence-group": "b", "fields.b.aggregate-function": "first_value", "fields.c.sequence-group": "d"}
P15 = DOC | {"fields.d.aggregate-function": "sum"}

PARTIAL_UPDATE_CASES = {
    "P1": Case(PARTIAL, ints(6), {}, [(1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 2, 2, 2, NULL)], [(1, 2, 2, 2, 2, 2, 1)]),
    "P2": Case(
        PARTIAL,
        "k INT, f1 DOUBLE, f2 BIGINT, f3 STRING",
        {},
        [(1, 23.0, 10, NULL), (1, NULL, NULL, "book"), (1, 25.2, NULL, NULL)],
        [(1, 25.2, 10, "book")],
    ),
    "P3": Case(PARTIAL, ints(6), GROUPS, P3_ROWS, [(1, 2, 2, 2, 1, 1, 1)]),
    "P4": Case(PARTIAL, ints(6), GROUPS, P4_ROWS, [(1, 2, 2, 2, 3, 3, 3)]),
    "P7 a -D without the sequence of a group": Case(
        PARTIAL, ints(6), P7, [*P4_ROWS, D(1, 1, 1, 3, 1, 1, NULL)], [(1, NULL, NULL, 3, 3, 3, 3)]
    ),
    "P7 removed": Case(PARTIAL, ints(6), P7, [*P4_ROWS, D(1, 1, 1, 3, 1, 1, NULL), D(1, 1, 1, 3, 1, 1, 4)], []),
    "P7 begins anew": Case(
        PARTIAL,
        ints(6),
        P7,
        [*P4_ROWS, D(1, 1, 1, 3, 1, 1, NULL), D(1, 1, 1, 3, 1, 1, 4), (1, 4, 4, 4, 5, 5, 5)],
        [(1, 4, 4, 4, 5, 5, 5)],
    ),
    "P7 removed again": Case(
        PARTIAL, ints(6), P7, [*P4_ROWS, D(1, 1, 1, 3, 1, 1, 4), (1, 4, 4, 4, 5, 5, 5), D(1, 1, 1, 6, 1, 1, 6)], []
    ),
    "P7 a late -D removes nothing": Case(PARTIAL, ints(6), P7, [*P4_ROWS, D(1, 1, 1, 3, 1, 1, 2)], [(1, NULL, NULL, 3, 3, 3, 3)]),
    "P8": Case(
        PARTIAL, ints(8), PAIRS, [(1, 1, 1, 1, 1, 1, 1, 1, 3), (1, 2, 2, 2, 2, 2, 1, 1, NULL)], [(1, 2, 2, 2, 2, 1, 1, 1, 3)]
    ),
    "P10": Case(PARTIAL, ints(3), {"fields.f3.sequence-group": "f1,f2"}, [(1, 1, 1, 1), (1, NULL, 2, 1)], [(1, NULL, 2, 1)]),
    "P11": Case(
        PARTIAL,
        ints(6),
        GROUPS | {"fields.default-aggregate-function": "last_non_null_value"},
        [(1, 2, 2, 2, 3, 3, 3), (1, 4, NULL, 4, 5, NULL, 5)],
        [(1, 4, 2, 4, 5, 3, 5)],
    ),
    "P12": Case(PARTIAL, ints(3), P12, [(1, 1, 1, 1), (1, 2, 2, 2)], [(1, 2, 1, 2)]),
    "P12 late": Case(PARTIAL, ints(3), P12, [(1, 1, 1, 1), (1, 2, 2, 2), (1, 0, 3, 3)], [(1, 2, 3, 2)]),
    "P13": Case(PARTIAL, P13_COLUMNS, P13, P13_ROWS, [(1, 3, 2, 2, "1", 1)]),
    "P13 an older g1 still sums": Case(PARTIAL, P13_COLUMNS, P13, [*P13_ROWS, (1, 3, 3, 1, "3", 3)], [(1, 6, 3, 2, "3", 3)]),
    "P13 nulls": Case(
        PARTIAL,
        P13_COLUMNS,
        P13,
        [*P13_ROWS, (1, 3, 3, 1, "3", 3), (1, NULL, NULL, 2, NULL, 4)],
        [(1, 6, 3, 2, NULL, 4)],
    ),
    "P15": Case(
        PARTIAL,
        "k INT, a INT, b INT, c INT, d INT",
        P15,
        [(1, 1, 1, NULL, NULL), (1, NULL, NULL, 1, 1), (1, 2, 2, NULL, NULL), (1, NULL, NULL, 2, 2)],
        [(1, 2, 1, 2, 3)],
    ),
    "P15 with a default": Case(
        PARTIAL,
        "k INT, a INT, b INT, c INT, d INT",
        {
            "fields.a.sequence-group": "b",
            "fields.c.sequence-group": "d",
            "fields.default-aggregate-function": "last_non_null_value",
            "fields.d.aggregate-function": "sum",
        },
        [(1, 1, 1, NULL, NULL), (1, NULL, NULL, 1, 1), (1, 2, 2, NULL, NULL), (1, NULL, NULL, 2, 2)],
        [(1, 2, 2, 2, 3)],
    ),
    "P16": Case(
        PARTIAL,
        ints(2),
        {"partial-update.remove-record-on-delete": "true"},
        [(1, 1, 1), (2, 2, 2), D(1, NULL, NULL)],
        [(2, 2, 2)],
    ),
    "P16 begins anew": Case(
        PARTIAL,
        ints(2),
        {"partial-update.remove-record-on-delete": "true"},
        [(1, 1, 1), D(1, NULL, NULL), (1, NULL, 3)],
        [(1, NULL, 3)],
    ),
    "P16 -U means nothing": Case(
        PARTIAL, ints(2), {"partial-update.remove-record-on-delete": "true"}, [(1, 1, 1), U(1, 1, 1), (1, NULL, 3)], [(1, 1, 3)]
    ),
    "whole rows in order of a sequence": Case(
        PARTIAL, ints(3), {"sequence.field": "f3"}, [(1, NULL, 2, 5), (1, 1, 1, 3)], [(1, 1, 2, 5)]
    ),
    "-D is dropped": Case(
        PARTIAL, ints(2), {"ignore-delete": "true"}, [(1, 1, NULL), D(1, NULL, NULL), (1, NULL, 3)], [(1, 1, 3)]
    ),
}

SUM = {"fields.f1.aggregate-function": "sum"}


def aggregated(function: str, column: str, values: Sequence, expected: object, **settings: object) -> Case:
    """One column; a value in a one-element list is taken back."""
    rows = [D(1, value[0]) if isinstance(value, list) and "ARRAY" not in column else (1, value) for value in values]
    options = {"fields.f1.aggregate-function": function} | {f"fields.f1.{n.replace('_', '-')}": v for n, v in settings.items()}
    return Case(AGGREGATION, f"k INT, f1 {column}", options, rows, [(1, expected)])


A2 = {"fields.default-aggregate-function": "first_non_null_value", "fields.f2.aggregate-function": "sum"}
A2_ROWS = [(1, NULL, 1, 1, 1), (1, 2, NULL, 2, 2), (1, 3, 3, NULL, 3), (1, 4, 4, 4, NULL), (1, 5, 5, 5, 5)]
AGGREGATION_CASES = {
    "A1": Case(
        AGGREGATION,
        "k INT, price DOUBLE, sales BIGINT",
        {"fields.price.aggregate-function": "max", "fields.sales.aggregate-function": "sum"},
        [(1, 23.0, 15), (1, 30.2, 20)],
        [(1, 30.2, 35)],
    ),
    "A2": Case(AGGREGATION, ints(4), A2, A2_ROWS, [(1, 2, 13, 1, 1)]),
    "A3": Case(AGGREGATION, ints(2), {}, [(1, 1, NULL), (1, NULL, 2)], [(1, 1, 2)]),
    "A3 a sequence column takes the newest": Case(
        AGGREGATION, ints(2), {"sequence.field": "f2"}, [(1, 5, 5), (1, 3, 3), (1, NULL, 7)], [(1, 5, 7)]
    ),
    "A4 null": aggregated("sum", "INT", [NULL, 10], 10),
    "A4": aggregated("sum", "INT", [1, 10], 11),
    "A4 retract": aggregated("sum", "INT", [10, [5]], 5),
    "A4 retract of null": aggregated("sum", "INT", [NULL, [5]], -5),
    "A4 retract of nothing": aggregated("sum", "INT", [[5]], -5),
    "a retract before the first insert": Case(AGGREGATION, ints(1), SUM, [D(1, 5), (1, 8)], [(1, 3)]),
    "a -U before a removing -D": Case(
        AGGREGATION, ints(1), {"aggregation.remove-record-on-delete": "true", **SUM}, [U(1, 5), D(1, 9), U(1, 2)], [(1, -2)]
    ),
    "A5 retract of nothing": aggregated("product", "INT", [[5]], NULL),
    "a sum that overflows on the way is null from there": aggregated(
        "sum", "TINYINT", [100, 100, -100, [-3]], -97, overflow="null"
    ),
    "A5": aggregated("product", "INT", [10, [5]], 2),
    "A5 retract of null": aggregated("product", "INT", [NULL, [5]], NULL),
    "A6": aggregated("last_value", "INT", [1, [2]], NULL),
    "A6 non-null": aggregated("last_non_null_value", "INT", [1, [2]], NULL),
    "A6 a null retract keeps": aggregated("last_non_null_value", "INT", [1, [NULL]], 1),
    "A7 distinct": aggregated("collect", "ARRAY<INT>", [[1, 1, 2], [2, 3]], [1, 2, 3], distinct="true"),
    "A7": aggregated("collect", "ARRAY<INT>", [[1, 1, 2], [2, 3]], [1, 1, 2, 2, 3]),
    "A7 retract": Case(
        AGGREGATION,
        "k INT, f1 ARRAY<INT>",
        {"fields.f1.aggregate-function": "collect"},
        [(1, [1, 1, 2, 2, 3]), D(1, [1, 2, 3])],
        [(1, [1, 2])],
    ),
    "A8": Case(
        AGGREGATION,
        "k INT, f1 MAP<INT, STRING>",
        {"fields.f1.aggregate-function": "merge_map"},
        [(1, [(1, "A")]), (1, [(1, "A"), (2, "B")]), (1, [(1, "a"), (3, "c")])],
        [(1, [(1, "a"), (2, "B"), (3, "c")])],
    ),
    "A8 retract": Case(
        AGGREGATION,
        "k INT, f1 MAP<INT, STRING>",
        {"fields.f1.aggregate-function": "merge_map"},
        [(1, [(1, "A"), (2, "B"), (3, "c")]), D(1, [(1, "A"), (2, "B")])],
        [(1, [(3, "c")])],
    ),
    "A10": aggregated("listagg", "STRING", ["1", "2", NULL, "3", "4", "5"], "1,2,3,4,5"),
    "A10 delimiter": aggregated("listagg", "STRING", ["1", "2", "3"], "1-2-3", list_agg_delimiter="-"),
    "A11": aggregated("listagg", "STRING", ["user1", "user2", "user1,user3"], "user1,user2,user3", distinct="true"),
    "A13": Case(
        AGGREGATION,
        ints(3),
        {"aggregation.remove-record-on-delete": "true", **SUM},
        [(1, 1, 1, 1), (2, 1, 1, 1), D(1, 2, 2, NULL)],
        [(2, 1, 1, 1)],
    ),
    "A13 begins anew": Case(
        AGGREGATION, ints(1), {"aggregation.remove-record-on-delete": "true", **SUM}, [(1, 5), D(1, 5), (1, 2), (1, 3)], [(1, 5)]
    ),
    "A13 -U is taken back": Case(
        AGGREGATION, ints(1), {"aggregation.remove-record-on-delete": "true", **SUM}, [(1, 5), U(1, 2)], [(1, 3)]
    ),
    "A14 ignored": aggregated("max", "INT", [5, [5], 3], 5, ignore_retract="true"),
    "-U and +U": Case(AGGREGATION, ints(1), SUM, [(1, 5), U(1, 5), (1, 7), (1, 1)], [(1, 8)]),
}


def grouped(function: str, type_: str, rows: Sequence[tuple], expected: tuple, **options: str) -> Case:
    """Row = (k, m, g): `m` is aggregated in the sequence group of `g`."""
    named = {"fields.g.sequence-group": "m", "fields.m.aggregate-function": function} | options
    return Case(PARTIAL, f"k INT, m {type_}, g INT", named, list(rows), [expected])


def late_retract(function: str, type_: str, first: object, second: object, left: object, **options: str) -> Case:
    return grouped(function, type_, [(1, first, 1), (1, second, 5), U(1, first, 3)], (1, left, 5), **options)


STRUCTS = "ARRAY<STRUCT<i: INT, v: STRING>>"
ONE, TWO = {"i": 1, "v": "a"}, {"i": 2, "v": "b"}
BY_F2 = {"sequence.field": "f2"}
FORGETS = {"sequence.delete-retained": "0 s"}
REMOVING = {"partial-update.remove-record-on-delete": "true"}
ONE_AT_A_TIME_CASES = {
    "a late -U of a sum": late_retract("sum", "INT", 2, 3, 3),
    "a late -U of a product": late_retract("product", "INT", 2, 3, 3),
    "a late -U of a collect": late_retract("collect", "ARRAY<INT>", [2], [3], [3]),
    "a late -U of a map": late_retract("merge_map", "MAP<INT, INT>", [(1, 2)], [(2, 3)], [(2, 3)]),
    "a late -U of a nested table": late_retract("nested_update", STRUCTS, [ONE], [TWO], [TWO], **{"fields.m.nested-key": "i"}),
    "a late -U of the last value": late_retract("last_value", "INT", 2, 3, NULL),
    "a late -U of the last value that is not null": late_retract("last_non_null_value", "INT", 2, 3, NULL),
    "a late -U of a null": grouped("last_non_null_value", "INT", [(1, 2, 1), (1, 3, 5), U(1, NULL, 3)], (1, 3, 5)),
    "a late row after a retract of a list": grouped(
        "collect", "ARRAY<INT>", [(1, [1, 1], 2), U(1, [1], 3), (1, [1], 1)], (1, [1, 1], 3)
    ),
    "late rows of a first value": grouped("first_value", "INT", [(1, 7, 3), (1, 5, 1), (1, 6, 2)], (1, 6, 3)),
    "late rows of a listagg": grouped("listagg", "STRING", [(1, "a", 3), (1, "b", 1), (1, "c", 2)], (1, "c,b,a", 3)),
    "only a -D": Case(PARTIAL, "k INT, m INT, g INT", {"fields.g.sequence-group": "m"}, [D(1, 7, 5), U(1, 7, 6)], []),
    "a row after only a -D": Case(
        PARTIAL, "k INT, m INT, g INT", {"fields.g.sequence-group": "m"}, [D(1, 7, 5), (1, 8, 3)], [(1, 8, 3)]
    ),
    "7@2, 5@1, null@3": Case(PARTIAL, ints(2), BY_F2, [(1, 7, 2), (1, 5, 1), (1, NULL, 3)], [(1, 7, 3)]),
    "a late -D removes no row": Case(PARTIAL, ints(2), BY_F2 | REMOVING, [(1, 7, 5), D(1, NULL, 3)], [(1, 7, 5)]),
    "a -D removes the sequence, too": Case(
        PARTIAL, ints(2), BY_F2 | REMOVING, [(1, 7, 5), D(1, NULL, 6), (1, 8, 1)], [(1, 8, 1)]
    ),
    "deduplicate: a -D keeps the sequence": Case(
        DEDUPLICATE, ints(2), BY_F2, [(1, 7, 5), D(1, NULL, 6), (1, 8, 1), (2, 9, 0)], [(2, 9, 0)]
    ),
    "deduplicate: a -D that is not retained removes the sequence, too": Case(
        DEDUPLICATE, ints(2), BY_F2 | FORGETS, [(1, 7, 5), D(1, NULL, 6), (1, 8, 1), (1, 9, 0)], [(1, 8, 1)]
    ),
    "deduplicate: a late -D and what is late for it": Case(
        DEDUPLICATE, ints(2), BY_F2, [(1, 7, 5), D(1, NULL, 4), (1, 8, 3)], [(1, 7, 5)]
    ),
}

FIRST_ROW_CASES = {
    "F1": Case(FIRST_ROW, "k INT, f1 INT, f2 STRING", {}, [(1, 1, "1"), (1, 2, "2")], [(1, 1, "1")]),
    "F1 another key": Case(
        FIRST_ROW, "k INT, f1 INT, f2 STRING", {}, [(1, 1, "1"), (7, 7, "7"), (7, 7, "8")], [(1, 1, "1"), (7, 7, "7")]
    ),
    "F3 ignored": Case(FIRST_ROW, ints(1), {"ignore-delete": "true"}, [(1, 1), D(1, 1), (1, 2)], [(1, 1)]),
}

SEQUENCE = {"sequence.field": "f2"}
DEDUPLICATE_CASES = {
    "the newest": Case(DEDUPLICATE, ints(1), {}, [(1, 1), (1, 2), (2, 1), D(2, NULL)], [(1, 2)]),
    "late rows": Case(DEDUPLICATE, ints(2), SEQUENCE, [(1, 1, 5), (1, 2, 3), (2, 1, 1), (2, 2, 2)], [(1, 1, 5), (2, 2, 2)]),
    "ties go by arrival": Case(DEDUPLICATE, ints(2), SEQUENCE, [(1, 1, 5), (1, 2, 5)], [(1, 2, 5)]),
    "null is the oldest": Case(DEDUPLICATE, ints(2), SEQUENCE, [(1, 1, -5), (1, 2, NULL)], [(1, 1, -5)]),
    "null against null": Case(DEDUPLICATE, ints(2), SEQUENCE, [(1, 1, NULL), (1, 2, NULL)], [(1, 2, NULL)]),
    "descending": Case(
        DEDUPLICATE,
        ints(2),
        SEQUENCE | {"sequence.field.sort-order": "descending"},
        [(1, 1, 5), (1, 2, 6), (2, 1, 5), (2, 2, 4)],
        [(1, 1, 5), (2, 2, 4)],
    ),
    "null is the oldest, descending": Case(
        DEDUPLICATE, ints(2), SEQUENCE | {"sequence.field.sort-order": "descending"}, [(1, 1, 5), (1, 2, NULL)], [(1, 1, 5)]
    ),
    "several": Case(
        DEDUPLICATE,
        ints(3),
        {"sequence.field": "f2,f3"},
        [(1, 1, 1, 9), (1, 2, 2, 1), (1, 3, 2, 0), (1, 4, NULL, 10)],
        [(1, 2, 2, 1)],
    ),
    "a late -D deletes nothing": Case(DEDUPLICATE, ints(2), SEQUENCE, [(1, 1, 5), D(1, NULL, 3)], [(1, 1, 5)]),
    "a -D deletes what is older": Case(DEDUPLICATE, ints(2), SEQUENCE, [(1, 1, 5), D(1, NULL, 5)], []),
    "text in the order of its bytes": Case(
        DEDUPLICATE, "k INT, f1 INT, f2 STRING", SEQUENCE, [(1, 1, "b"), (1, 2, "aa"), (1, 3, "")], [(1, 1, "b")]
    ),
    "NaN is the greatest": Case(
        DEDUPLICATE,
        "k INT, f1 INT, f2 DOUBLE",
        SEQUENCE,
        [(1, 1, 1e300), (1, 2, float("inf")), (2, 1, 5.0), (2, 2, -0.0)],
        [(1, 2, float("inf")), (2, 1, 5.0)],
    ),
}

CASES = ONE_AT_A_TIME_CASES | PARTIAL_UPDATE_CASES | AGGREGATION_CASES | FIRST_ROW_CASES | DEDUPLICATE_CASES


@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param(name, way, id=f"{name}-{way.__name__}")
        for name, (number, way) in product(CASES, enumerate(WAYS))
        if in_turn(name, number, len(WAYS))
    ],
)
def test_case(name, way):
    case = CASES[name]
    table = table_of(case)
    way(table, case.rows)
    assert scanned(table) == case.expected
    table.compact()
    assert scanned(table, "raw") == scanned(table) == case.expected
    table.compact(full=True)
    assert scanned(table, "raw") == case.expected
    assert table.verify() == []
    assert table.scan().count() == len(case.expected)


WITHOUT_VECTORS = {
    "merge on read": {"deletion-vectors.enabled": "false", "num-sorted-run.compaction-trigger": "2"},
    "copy on write": {"deletion-vectors.enabled": "false", "full-compaction.delta-commits": "1"},
}


WAYS_WITHOUT_VECTORS = list(product([one_batch, inline], WITHOUT_VECTORS))


@pytest.mark.parametrize(
    ("name", "way", "mode"),
    [
        pytest.param(name, way, mode, id=f"{name}-{way.__name__}-{mode}")
        for name, (number, (way, mode)) in product(CASES, enumerate(WAYS_WITHOUT_VECTORS))
        if in_turn(name, number, len(WAYS_WITHOUT_VECTORS))
    ],
)
def test_case_without_deletion_vectors(name, way, mode):
    case = CASES[name]
    table = table_of(case._replace(options=case.options | WITHOUT_VECTORS[mode]))
    way(table, case.rows)
    assert scanned(table) == case.expected
    if mode == "copy on write" and way is inline:
        assert scanned(table, "raw") == case.expected
    table.compact()
    assert scanned(table) == case.expected
    table.compact(full=True)
    assert scanned(table, "raw") == scanned(table) == case.expected
    assert table.verify() == []
    assert table.scan().count() == len(case.expected)


@pytest.mark.parametrize("name", CASES)
def test_case_with_single_columns_read(name):
    """A read of some columns merges as a read of all does."""
    case = CASES[name]
    table = table_of(case)
    waiting(table, case.rows)
    for number, column in enumerate(table.schema.names):
        read = table.scan(columns=[column]).to_arrow()[column].to_pylist()
        assert sorted(read, key=repr) == sorted((row[number] for row in case.expected), key=repr)


GROUP = {"fields.f1.sequence-group": "f2"}
REFUSED = {
    "P17 an aggregate without a group": (PARTIAL, {"fields.f1.aggregate-function": "sum"}, ["'f1'", "no sequence group"]),
    "P17 a key column in a group": (PARTIAL, {"fields.f1.sequence-group": "k"}, ["key column", "'k'"]),
    "P17 a key column as a sequence": (PARTIAL, {"fields.k.sequence-group": "f1"}, ["key column", "'k'"]),
    "P17 a column in two groups": (PARTIAL, GROUP | {"fields.f3.sequence-group": "f2"}, ["'f2'", "two sequence groups"]),
    "P17 remove-record-on-delete with ignore-delete": (
        PARTIAL,
        {"partial-update.remove-record-on-delete": "true", "ignore-delete": "true"},
        ["remove-record-on-delete", "ignore-delete"],
    ),
    "P17 remove-record-on-delete with groups": (
        PARTIAL,
        GROUP | {"partial-update.remove-record-on-delete": "true"},
        ["remove-record-on-delete", "sequence groups"],
    ),
    "both ways of removing": (
        PARTIAL,
        GROUP | {"partial-update.remove-record-on-delete": "true", "partial-update.remove-record-on-sequence-group": "f1"},
        ["exclude each other"],
    ),
    "removal by no group": (
        PARTIAL,
        GROUP | {"partial-update.remove-record-on-sequence-group": "f2"},
        ["not a sequence column", "['f2']"],
    ),
    "a function of a sequence": (PARTIAL, GROUP | {"fields.f1.aggregate-function": "max"}, ["sequence column 'f1'"]),
    "a group of no column": (PARTIAL, {"fields.f1.sequence-group": "f9"}, ["'f9'", "['k', 'f1', 'f2', 'f3']"]),
    "no such function": (AGGREGATION, {"fields.f1.aggregate-function": "summ"}, ["'summ'", "did you mean 'sum'"]),
    "a type without meaning": (AGGREGATION, {"fields.f1.aggregate-function": "bool_and"}, ["bool_and", "int32"]),
    "a setting without a function": (PARTIAL, GROUP | {"fields.f3.ignore-retract": "true"}, ["fields.f3.ignore-retract"]),
    "a setting the function has no use for": (
        AGGREGATION,
        {"fields.f1.aggregate-function": "sum", "fields.f1.distinct": "true"},
        ["distinct", "sum"],
    ),
    "a function of the key": (AGGREGATION, {"fields.k.aggregate-function": "sum"}, ["key column"]),
    "a function of a sequence field": (
        AGGREGATION,
        {"sequence.field": "f1", "fields.f1.aggregate-function": "sum"},
        ["'f1'", "sequence.field"],
    ),
    "groups of aggregation": (AGGREGATION, GROUP, ["sequence group", "partial-update"]),
    "F3 first-row by sequence": (FIRST_ROW, {"sequence.field": "f1"}, ["sequence.field", "first-row"]),
    "an unknown sequence": (DEDUPLICATE, {"sequence.field": "f9"}, ["sequence.field", "'f9'"]),
    "an order of nothing": (DEDUPLICATE, {"sequence.field.sort-order": "descending"}, ["sequence.field.sort-order"]),
    "an option of another engine": (
        DEDUPLICATE,
        {"aggregation.remove-record-on-delete": "true"},
        ["aggregation.remove-record-on-delete", "deduplicate"],
    ),
    "a column option of another engine": (DEDUPLICATE, GROUP, ["fields.f1.sequence-group", "partial-update or aggregation"]),
    "an unknown column option": (
        AGGREGATION,
        {"fields.f1.agregate-function": "sum"},
        ["fields.f1.agregate-function", "did you mean .aggregate-function"],
    ),
    "a column option with a bad value": (AGGREGATION, {"fields.f1.ignore-retract": "maybe"}, ["true or false", "'maybe'"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    engine, options, words = REFUSED[name]
    lake = new_lake()
    with pytest.raises(InvalidOption) as caught:
        lake.create_table("d.t", ints(3), primary_key=["k"], options={"merge-engine": engine, **options})
    for word in (*words, "d.t"):
        assert word in str(caught.value), caught.value
    assert caught.value.cure
    assert lake.tables("d") == []


@pytest.mark.parametrize("engine", [PARTIAL, AGGREGATION])
def test_a_column_that_may_become_null_cannot_be_declared_otherwise(engine):
    with pytest.raises(InvalidOption, match=r"NOT NULL f1"):
        new_lake().create_table("d.t", "k INT, f1 INT NOT NULL", primary_key=["k"], options={"merge-engine": engine})


MAX_GROUP = {"fields.f1.sequence-group": "f2", "fields.f2.aggregate-function": "max"}

BAD_ROWS = {
    "P17 a retract": (PARTIAL, {}, D(1, 1, 1, 1), ["partial-update", "-D"]),
    "F3 -D": (FIRST_ROW, {}, D(1, 1, 1, 1), ["first-row", "-D", "ignore-delete"]),
    "F3 -U": (FIRST_ROW, {}, U(1, 1, 1, 1), ["first-row", "-U"]),
    "A14 max": (AGGREGATION, {"fields.f1.aggregate-function": "max"}, D(1, 1, 1, 1), ["'f1'", "ignore-retract"]),
    "A14 -U though -D removes": (
        AGGREGATION,
        {"fields.f1.aggregate-function": "max", "aggregation.remove-record-on-delete": "true"},
        U(1, 1, 1, 1),
        ["'f1'", "ignore-retract"],
    ),
    "a -D of a group with max": (
        PARTIAL,
        MAX_GROUP,
        D(1, 9, 5, 5),
        ["-D", "['f2']", "group f1", "{'k': 1}", "fields.f2.ignore-retract"],
    ),
    "a -U of a group with max": (PARTIAL, MAX_GROUP, U(1, 1, 5, 5), ["-U", "['f2']"]),
    "a -D that may be late in the group that removes": (
        PARTIAL,
        MAX_GROUP | {"partial-update.remove-record-on-sequence-group": "f1"},
        D(1, 9, 5, 5),
        ["-D", "['f2']"],
    ),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_row_without_meaning_is_refused_before_anything_is_written(name):
    engine, options, row, words = BAD_ROWS[name]
    table = table_of(Case(engine, ints(3), options, [], []))
    table.upsert(batch(table, [(1, 7, 7, 7)]), row_kind="op")
    before = table.snapshots(), {entry.path for entry in table.meta.env.storage.list("")}
    with pytest.raises(InvalidData) as caught:
        table.upsert(batch(table, [(2, 1, 1, 1), row]), row_kind="op")
    for word in words:
        assert word in str(caught.value), caught.value
    assert (table.snapshots(), {entry.path for entry in table.meta.env.storage.list("")}) == before
    assert scanned(table) == [(1, 7, 7, 7)]


@pytest.mark.parametrize("limit", [{}, {"fields.f1.count-limit": "2"}])
def test_a_null_in_a_nested_key_is_refused_even_if_rows_are_not_combined_at_once(limit):
    nested = {"aggregate-function": "nested_update", "nested-key": "i", "nested-key-null-strategy": "error"}
    options = {f"fields.f1.{name}": value for name, value in nested.items()} | limit
    table = table_of(Case(AGGREGATION, f"k INT, f1 {STRUCTS}", options, [], []))
    with pytest.raises(InvalidData, match="nested key has a null"):
        one_batch(table, [(1, [ONE, {"i": NULL, "v": "a"}])])
    assert table.snapshots().num_rows == 0
    one_batch(table, [(1, [ONE, TWO]), D(1, [TWO, {"i": NULL, "v": "a"}])])
    assert scanned(table) == [(1, [ONE])]


def test_a_retract_with_a_null_sequence_of_a_group_is_accepted_by_all_its_functions():
    table = table_of(Case(PARTIAL, ints(4), MAX_GROUP | {"fields.f3.sequence-group": "f4"}, [], []))
    for row in [(1, 5, 7, 1, 8), D(1, NULL, 9, 2, 8), (1, 6, 3, NULL, NULL)]:
        inline(table, [row])
    assert scanned(table) == [(1, 6, 7, 2, NULL)]


@pytest.mark.parametrize(
    ("engine", "options"),
    [(FIRST_ROW, {}), (PARTIAL, {}), (PARTIAL, GROUP), (AGGREGATION, {"fields.default-aggregate-function": "sum"})],
)
def test_a_delete_by_key_is_refused_where_it_has_no_meaning(engine, options):
    table = table_of(Case(engine, ints(3), options, [], []))
    table.upsert(batch(table, [(1, 7, 7, 7)]), row_kind="op")
    with pytest.raises(InvalidData, match="cannot delete by key"):
        table.delete_keys({"k": [1]})
    assert scanned(table) == [(1, 7, 7, 7)]


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        (DEDUPLICATE, {}),
        (PARTIAL, {"partial-update.remove-record-on-delete": "true"}),
        (AGGREGATION, {"aggregation.remove-record-on-delete": "true", "fields.default-aggregate-function": "max"}),
    ],
)
@pytest.mark.parametrize("compact", [True, False])
def test_a_delete_by_key_removes_the_row(engine, options, compact):
    table = table_of(Case(engine, ints(3), options, [], []))
    table.upsert(batch(table, [(1, 7, 7, 7), (2, 7, 7, 7)]), row_kind="op")
    table.delete_keys({"k": [1, 3]}, compact=compact)
    assert scanned(table) == [(2, 7, 7, 7)]
    table.upsert(batch(table, [(1, NULL, 8, NULL)]), row_kind="op", compact=compact)
    assert scanned(table) == [(1, NULL, 8, NULL), (2, 7, 7, 7)]


def test_a_delete_that_is_ignored_is_nothing_to_commit():
    table = table_of(Case(FIRST_ROW, ints(1), {"ignore-delete": "true"}, [], []))
    table.upsert(batch(table, [(1, 7)]), row_kind="op")
    assert table.delete_keys({"k": [1]}) is None
    assert table.delete_keys({"k": [1]}, ignore_sequence=True).id == 2, "an erasure is not ignored"
    assert scanned(table) == []


BY_SEQUENCE = {"sequence.field": "f1"}


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        (DEDUPLICATE, {}),
        (PARTIAL, {"partial-update.remove-record-on-delete": "true"}),
        (AGGREGATION, {"aggregation.remove-record-on-delete": "true", "fields.f2.aggregate-function": "max"}),
    ],
)
@pytest.mark.parametrize("compact", [True, False])
def test_a_delete_by_key_takes_the_sequence(engine, options, compact):
    table = table_of(Case(engine, ints(2), options | BY_SEQUENCE, [], []))
    table.upsert(batch(table, [(1, 7, 7), (2, 7, 7)]), row_kind="op", compact=compact)
    with pytest.raises(InvalidData, match=r"lacks the sequence.*sequence.field = f1.*ignore_sequence=True"):
        table.delete_keys({"k": [1]})
    with pytest.raises(InvalidData, match=r"column 'f1'.*null.*ignore_sequence=True"):
        table.delete_keys({"k": [1, 2], "f1": [3, None]})
    assert table.snapshots().num_rows == 1
    table.delete_keys({"k": [1, 2], "f1": [6, 8]}, compact=compact)
    assert scanned(table) == [(1, 7, 7)]
    with pytest.raises(InvalidData, match="extra columns"):
        table.delete_keys({"k": [1], "f1": [1]}, ignore_sequence=True)
    table.delete_keys({"k": [1]}, ignore_sequence=True, compact=compact)
    assert scanned(table) == []
    table.upsert(batch(table, [(1, 2, 9)]), row_kind="op", compact=compact)
    assert scanned(table) == [(1, 2, 9)], "an erased key begins anew, independent of its old sequence"


def test_an_erasure_survives_a_compaction_that_does_not_reach_the_oldest_file():
    """Merge on read: the runs above the oldest are merged, and the oldest file still holds the erased row."""
    options = BY_SEQUENCE | {"deletion-vectors.enabled": "false", "num-sorted-run.compaction-trigger": "3", "num-levels": "5"}
    table = table_of(Case(DEDUPLICATE, "k INT, f1 INT, f2 STRING", options, [], []))
    rows = [{"k": k, "f1": 100, "f2": f"{k:0500}"} for k in range(2_000)]
    table.upsert(pa.Table.from_pylist(rows), compact=False)
    table.compact(full=True)
    table.delete_keys({"k": [1, 2, 3]}, ignore_sequence=True, compact=False)
    table.upsert({"k": [2], "f1": [5], "f2": ["new"]}, compact=False)
    table.upsert({"k": [3, 4], "f1": [6, 6], "f2": ["late", "late"]}, compact=False)
    (oldest,) = table.files().filter(pc.field("record_count") == 2_000)["file_path"].to_pylist()
    assert table.compact().snapshot_id
    files = table.files()
    assert oldest in files["file_path"].to_pylist() and files.num_rows < 5, "the newer runs were merged, the oldest was not"
    kept = {row["k"]: row["f2"] for row in table.scan(where="k <= 4").to_arrow().to_pylist()}
    assert kept == {0: f"{0:0500}", 2: "new", 3: "late", 4: f"{4:0500}"}
    assert table.changes(1, 3, mode="delta").to_arrow()["_row_kind"].to_pylist() == ["-D"] * 3
    table.compact(full=True)
    assert table.scan(where="k <= 4").count() == 4
    assert table.verify() == []


def test_a_key_that_was_only_retracted_emits_no_change():
    case = ONE_AT_A_TIME_CASES["only a -D"]
    for producer in ("none", "lookup", "full-compaction"):
        table = table_of(case._replace(options=case.options | {"changelog-producer": producer}))
        inline(table, case.rows)
        table.compact(full=True)
        last = table.snapshots().num_rows
        assert table.changes(0, last).count() == 0
        assert producer == "none" or table.changes(0, last, mode="changelog").count() == 0
        inline(table, [(1, 8, 3)])
        table.compact(full=True)
        for mode in ["diff"] if producer == "none" else ["diff", "changelog"]:
            (change,) = table.changes(0, mode=mode).to_arrow().to_pylist()
            assert change == {"_row_kind": "+I", "k": 1, "m": 8, "g": 3}


def test_the_changelog_shows_what_a_retract_of_nothing_leaves():
    case = AGGREGATION_CASES["a retract before the first insert"]
    for producer in ("lookup", "full-compaction"):
        table = table_of(case._replace(options=case.options | {"changelog-producer": producer}))
        for row in case.rows:
            inline(table, [row])
            table.compact(full=True)
        changes = table.changes(0, mode="changelog").to_arrow().to_pylist()
        assert [tuple(change.values()) for change in changes] == [("+I", 1, -5), ("-U", 1, -5), ("+U", 1, 3)]


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_a_sequence_field_inside_a_group_is_refused(order):
    """The group may make it smaller or null, so that it orders nothing; all sequence columns of one group can."""
    columns, group = "k INT, m INT, g INT, h INT", {"merge-engine": PARTIAL, "fields.g,h.sequence-group": "m"}
    lake = new_lake()
    for sequence in ("m", "g", "h,g", *(["g,h"] if order == "descending" else [])):
        options = group | {"sequence.field": sequence, "sequence.field.sort-order": order}
        with pytest.raises(InvalidOption, match=r"sequence group of g,h share.*outside of all groups"):
            lake.create_table("d.t", columns, primary_key=["k"], options=options)
    if order == "ascending":
        lake.create_table("d.t", columns, primary_key=["k"], options=group | {"sequence.field": "g,h"})


def test_two_commits_that_raced_count_in_the_order_they_landed():
    """The writer that read an older snapshot lands later, so its row is the newer one. What it merged with does not matter."""
    for engine, options, expected in (
        (DEDUPLICATE, {}, (1, 5, 5)),
        (PARTIAL, {}, (1, 5, 2)),
        (AGGREGATION, {"fields.default-aggregate-function": "sum"}, (1, 7, 3)),
        (FIRST_ROW, {}, (1, 1, 1)),
    ):
        table = table_of(Case(engine, ints(2), options, [], []))
        table.upsert(batch(table, [(1, 1, 1)]), row_kind="op")
        late = None if engine == PARTIAL else 5 if engine == DEDUPLICATE else 1
        rows = prepare(batch(table, [(1, 5, late)]).drop_columns(["op"]), table.version.schema)[0]
        ((bucket, part),) = split(rows, table.version.schema, Covers(1))
        state = table.states()[bucket]
        choose = picker(table.version, None)
        run = write_level0(BucketFiles.of(table.version, bucket), 1, [part], compacts=True)
        message = run.compacted(state, choose)  # has looked up and merged
        other = (1, 2, 2) if engine == PARTIAL else (1, 1, 1)
        table.upsert(batch(table, [other]), row_kind="op")
        commit(table.version, Request(Identity("late"), [message]))
        assert scanned(table) == [expected]
        table.compact()
        assert scanned(table, "raw") == [expected]
        assert table.verify() == []
