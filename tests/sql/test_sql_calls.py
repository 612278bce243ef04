"""How many calls each statement makes to the storage, exactly, and that its text is parsed once. In the steady state, as in
`test_storage_calls`: the lake has read the tables before, and nobody else has written since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest
from faults import FaultStorage
from storage_calls import KINDS, LISTS, NEWEST, PUBLISH, call_of, plus
from strategies import new_lake

from lsmlake.api.lake import Lake
from lsmlake.api.table import Table
from lsmlake.dialect.grammar import PlainSpark
from lsmlake.storage.memory import MemoryStorage
from lsmlake.warehouse import EmbeddedRuntime

OPENED = {"size database.json": 1, "read schema": 1}
"""A statement opens each of its tables by name: the database and the first schema must be there."""
TARGET = plus(OPENED, NEWEST)
BOTH = plus(TARGET, TARGET)
NEW_FILE = plus({"write data": 1}, LISTS, PUBLISH)
VECTOR = {"write dv": 1, "write index-manifest": 1}
REPLACED = plus(NEW_FILE, VECTOR)
MASKED = plus(VECTOR, {"write manifest-list": 2}, PUBLISH)
BY_KEY = plus(MASKED, {"write data": 1, "delete data": 1})
"""The file of keys to delete is compacted at once: it becomes a vector."""


def reads(files: int) -> dict[str, int]:
    """Reads of data files. The lookup of old rows by key opens no file again that a query of this lake has read."""
    return {"read data": files}


STATEMENTS: dict[str, tuple[str, dict[str, int], dict[str, int]]] = {
    "INSERT VALUES": ("INSERT INTO d.t VALUES (1000, 1)", *[plus(TARGET, NEW_FILE)] * 2),
    "INSERT SELECT": ("INSERT INTO d.t SELECT k + 1000, v FROM d.s", *[plus(BOTH, reads(1), NEW_FILE)] * 2),
    "OVERWRITE": ("INSERT OVERWRITE d.t VALUES (1, 1)", *[plus(TARGET, NEW_FILE)] * 2),
    "TRUNCATE": ("TRUNCATE TABLE d.t", *[plus(TARGET, LISTS, PUBLISH)] * 2),
    "UPDATE": (
        "UPDATE d.t SET v = v + 1 WHERE k = 50",
        plus(TARGET, reads(1), REPLACED),
        plus(TARGET, reads(2), REPLACED),
    ),
    "UPDATE by expression": (
        "UPDATE d.t SET v = v + 1 WHERE abs(k) = 50",
        plus(TARGET, reads(1), REPLACED),
        plus(TARGET, reads(2), REPLACED),
    ),
    "UPDATE with a query": (
        "UPDATE d.t SET v = (SELECT max(v) FROM d.s) WHERE k = 50",
        plus(BOTH, reads(2), REPLACED),
        plus(BOTH, reads(3), REPLACED),
    ),
    "UPDATE of no row": ("UPDATE d.t SET v = 1 WHERE k = 500", TARGET, TARGET),
    "DELETE": ("DELETE FROM d.t WHERE k = 50", plus(TARGET, reads(1), BY_KEY), plus(TARGET, reads(1), MASKED)),
    "DELETE with a query": (
        "DELETE FROM d.t WHERE k IN (SELECT k FROM d.s WHERE k = 95)",
        plus(BOTH, reads(2), BY_KEY),
        plus(BOTH, reads(2), MASKED),
    ),
    "DELETE of all rows": (
        "DELETE FROM d.t",
        plus(TARGET, reads(1), NEW_FILE, {"delete data": 1}),
        plus(TARGET, LISTS, PUBLISH),
    ),
    "MERGE": (
        """MERGE INTO d.t USING d.s ON t.k = s.k WHEN MATCHED AND s.v > 3 THEN UPDATE SET v = s.v + t.v
           WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)""",
        plus(BOTH, reads(2), REPLACED),
        plus(BOTH, reads(3), REPLACED),
    ),
    "MERGE that inserts": (
        "MERGE INTO d.t USING d.s ON t.k = s.k + 100 WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k + 100, 0)",
        *[plus(BOTH, reads(2), NEW_FILE)] * 2,
    ),
    "MERGE of own rows": (
        "MERGE INTO d.t USING d.t AS o ON t.k = o.k AND o.k = 7 WHEN MATCHED THEN DELETE",
        plus(TARGET, reads(2), BY_KEY),
        plus(TARGET, reads(2), MASKED),
    ),
    "WITH and MERGE": (
        """WITH c AS (SELECT k + 100 AS k FROM d.s) MERGE INTO d.t USING c ON t.k = c.k
           WHEN NOT MATCHED AND c.k IN (SELECT k FROM c) THEN INSERT (k, v) VALUES (c.k, (SELECT max(k) FROM c))""",
        *[plus(BOTH, reads(3), NEW_FILE)] * 2,
    ),
}
"""Statement -> its text, and the calls on a table with a primary key and on an append-only table."""
METHODS: dict[str, tuple[Callable[[Table], object], int]] = {
    "delete": (lambda table: table.delete("k = 50 OR k = 51"), 1),
    "update": (lambda table: table.update({"v": "v + 1"}, "k = 50"), 2),
    "merge": (
        lambda table: (
            table.merge({"k": [50], "v": [3]}, "t.k = s.k")
            .when_matched_update({"v": "t.v + s.v"}, "s.v > 1")
            .when_not_matched_insert_all()
            .execute()
        ),
        3,
    ),
}
"""Method -> a call of it, and how many texts it gives a table with a primary key."""


def made(kind: str) -> tuple[FaultStorage, Lake, Table]:
    """A lake with the tables d.t, of 100 rows in one file, and d.s."""
    storage = FaultStorage(MemoryStorage())
    lake = replace(new_lake(storage), runtime=EmbeddedRuntime(lambda spark: None))
    of = {"primary_key": ["k"], "options": {"bucket": "1"}}
    table = lake.create_table("d.t", "k BIGINT NOT NULL, v BIGINT", **(of if kind == "key" else {}))
    (table.upsert if kind == "key" else table.append)(pa.table({"k": range(100), "v": [1] * 100}))
    lake.create_table("d.s", "k BIGINT NOT NULL, v BIGINT", **of).upsert(pa.table({"k": range(90, 100), "v": range(10)}))
    for name in ("d.t", "d.s"):
        lake.sql(f"SELECT * FROM {name}")
    return storage, lake, table


@pytest.fixture
def parses(monkeypatch) -> list[str]:
    """The texts that were parsed."""
    texts, parse = [], PlainSpark.Parser.parse

    def noted(parser: PlainSpark.Parser, tokens: list, text: str) -> object:
        texts.append(text)
        return parse(parser, tokens, text)

    monkeypatch.setattr(PlainSpark.Parser, "parse", noted)
    return texts


@pytest.mark.parametrize("kind", ["key", "append-only"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_storage_calls_of_a_statement(statement: str, kind: str, parses: list[str]):
    text, *expected = STATEMENTS[statement]
    storage, lake, _ = made(kind)
    storage.calls, parses[:] = [], []
    lake.sql(text)
    found = Counter(call_of(name, path) for name, path in storage.calls if name in KINDS)
    assert dict(found) == expected[kind == "append-only"]
    assert parses == [text]


@pytest.mark.parametrize("method", METHODS)
def test_a_method_parses_each_text_once_and_reads_one_version(method: str, parses: list[str]):
    run, texts = METHODS[method]
    storage, _, table = made("key")
    storage.calls, parses[:] = [], []
    run(table)
    assert len(parses) == len({*parses}) == texts
    assert Counter(call_of(name, path) for name, path in storage.calls if name in KINDS)["read snapshot"] == 2 + 1
