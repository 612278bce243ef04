"""A whole database in step by `Lake.sync`: random histories of several tables in several formats against a naive model, a death
at every call of the storage, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
import source_database as source
from effort import one_in, scaled
from faults import every_fault
from source_database import SourceDatabase, SourceTable
from strategies import lake_on, new_lake

import lsmlake
from lsmlake import Lake
from lsmlake.api.sync.database_sync import DatabaseSync
from lsmlake.api.sync.sync_checkpoint import SyncCheckpoint
from lsmlake.api.sync.sync_rules import SyncArguments, SyncRules
from lsmlake.api.sync.sync_run import SyncRun
from lsmlake.api.sync.sync_source import EventInput, source_of
from lsmlake.errors import CommitConflict, InvalidData, InvalidOption, InvalidQuery, InvalidSchema, LakeError
from lsmlake.inputs.text_files import FileOptions
from lsmlake.storage.memory import MemoryStorage
from lsmlake.storage.storage import Storage


def event(op: str, table: str, after: dict | None, lsn: int, before: dict | None = None, db: str = "shop") -> str:
    source = {"db": db, "table": table, "lsn": lsn}
    return json.dumps({"before": before, "after": after, "source": source, "op": op, "ts_ms": 1})


def rows_of(lake: Lake, name: str) -> list[dict[str, object]]:
    return sorted(lake.table(name).to_arrow().to_pylist(), key=lambda row: str(next(iter(row.values()))))


def plain(row: dict[str, object]) -> dict[str, object]:
    """A row whose numbers compare as numbers, whatever their types, without nulls."""
    return {name: float(one) if isinstance(one, Decimal) else one for name, one in row.items() if one is not None}


def assert_same(lake: Lake, name: str, tables: Sequence[SourceTable]) -> None:
    """The table of the lake has the rows of the tables at the source."""
    wanted = [plain(row) for table in tables for row in table.rows.values()]
    if not wanted and name.partition(".")[2] not in lake.tables("shop"):
        return
    key = tables[0].key
    found = [plain(row) for row in lake.table(name).to_arrow().to_pylist()]
    assert sorted(found, key=lambda row: row[key]) == sorted(wanted, key=lambda row: row[key])


def two_tables() -> list[SourceTable]:
    return [
        SourceTable("shop", "orders", {"id": "int", "name": "varchar(20)", "n": "smallint", "price": "decimal(8,2)"}),
        SourceTable("shop", "items", {"sku": "bigint", "weight": "float", "label": "varchar(9)"}),
        SourceTable("other", "people", {"id": "int", "name": "varchar(9)"}),
    ]


WRITERS = {"canal-json": source.canal, "maxwell-json": source.maxwell, "debezium-json": source.debezium}


@pytest.mark.parametrize("format", [*WRITERS, "debezium-json without schema"])
@pytest.mark.parametrize("seed", range(scaled(3)))
def test_tables_follow_random_histories(format: str, seed: int):
    """Inserts, updates, deletes, moved keys, truncations, columns that come, go and widen."""
    name, _, schemaless = format.partition(" ")
    database = SourceDatabase(random.Random(f"{format} {seed}"), two_tables(), truncates=name != "maxwell-json")
    lake, total = new_lake(), 0
    batches = []
    for _ in range(5):
        changes = list(source.changes(database, database.chance.randrange(1, 60)))
        write = (lambda one: source.debezium(one, schema=False)) if schemaless else WRITERS[name]
        texts = [write(one) for one in changes]
        batches.append(pa.table({"value": texts, "key": [source.key_of(one) for one in changes]}))
        report = lake.sync(iter(batches[-1:]), format=name, database="shop", tables=r"shop\..*")
        rejected = {name: rows_of(lake, f"shop.{name}")[0]["reason"] for name in lake.tables("shop") if "rejected" in name}
        assert report.rejected == 0 and rejected == {}
        total += report.batches
        for table in database.tables[:2]:
            assert_same(lake, f"shop.{table.name}", [table])
    assert total == 5 and "people" not in lake.tables("shop")


@pytest.mark.parametrize("seed", range(scaled(3)))
def test_shards_become_one_table(seed: int):
    columns = {"id": "int", "name": "varchar(20)", "n": "smallint"}
    shards = [SourceTable(f"shop_{number}", "orders", dict(columns)) for number in range(3)]
    for number, shard in enumerate(shards):
        shard.columns = {"id": "int", **({"name": "varchar(20)", "n": "smallint"} if number else {"n": "int", "name": "char(9)"})}
    database, lake = SourceDatabase(random.Random(seed), shards, truncates=False, alters=False), new_lake()
    keys = {id(shard): 100 * number for number, shard in enumerate(shards)}
    for _ in range(4):
        texts = []
        for change in source.changes(database, 30):
            base = keys[id(change.table)]
            moved = [None if row is None else {**row, "id": row["id"] + base} for row in (change.after, change.before)]
            texts.append(source.canal(source.Change(change.table, change.columns, change.op, *moved, change.place)))
        report = lake.sync(texts, format="canal-json", database="shop", merge_shards=True)
        assert report["orders"].rejected == 0
    wanted = [plain({**row, "id": row["id"] + keys[id(shard)]}) for shard in shards for row in shard.rows.values()]
    found = [plain(row) for row in lake.table("shop.orders").to_arrow().to_pylist()]
    assert sorted(found, key=lambda row: row["id"]) == sorted(wanted, key=lambda row: row["id"])


# -- deaths -----------------------------------------------------------------------------------------------------------

BATCHES = [
    [event("c", "a", {"id": 1, "n": 1}, 1), event("c", "b", {"id": 1, "s": "x"}, 2), "{", event("c", "nokey", {"x": 1}, 3)],
    [
        event("c", "a", {"id": 2, "n": 2, "new": "y"}, 11),
        event("u", "b", {"id": 1, "s": "z"}, 12),
        event("c", "a", {"id": "x"}, 13),
    ],
    [event("d", "a", None, 21, {"id": 1}), event("c", "b", {"id": 2, "s": "w", "more": 1.5}, 22)],
]
KEYS = {"a": ["id"], "b": ["id"]}


def run_of(storage: Storage, prefix: str, batches: object, **given: object) -> SyncRun:
    """A sync whose checkpoint lies in the same storage as the lake, so that both fail."""
    rules = SyncRules.of(SyncArguments("debezium-json", "shop", **{"primary_keys": KEYS, **given}))
    lake = lake_on(storage, prefix)
    events = source_of(batches, EventInput(None, FileOptions.of(None, None, None), False, rules.rejects))
    return SyncRun(DatabaseSync(lake, rules), events, SyncCheckpoint(storage, "checkpoint"))


def once_each(lake: Lake, name: str) -> list[tuple[str, int]]:
    """The commits of the sync in a table. Each batch has one."""
    snapshots = lake.table(name).snapshots().to_pylist()
    made = [(one["writer_id"], one["commit_id"]) for one in snapshots if one["commit_id"] is not None]
    assert len(made) == len(set(made)), name
    return made


def assert_all_applied(storage: Storage) -> None:
    lake = lake_on(storage, "checked")
    assert lake.tables("shop") == ["a", "a_rejected", "b", "nokey_rejected", "rejected_events"]
    assert rows_of(lake, "shop.a") == [{"id": 2, "n": 2, "new": "y"}]
    assert rows_of(lake, "shop.b") == [{"id": 1, "s": "z", "more": None}, {"id": 2, "s": "w", "more": 1.5}]
    assert [len(once_each(lake, f"shop.{name}")) for name in ("a", "b")] == [3, 3]
    for name in ("a_rejected", "nokey_rejected", "rejected_events"):
        assert lake.table(f"shop.{name}").count() == len(once_each(lake, f"shop.{name}")) == 1, name


@pytest.mark.parametrize("mode", ["crash", "error"])
def test_every_table_has_every_batch_once_after_a_death_at_any_call(mode: str):
    def run(storage: Storage) -> object:
        return run_of(storage, "first", iter(BATCHES)).once()

    tried = 0
    for done in every_fault(run, MemoryStorage, mode, one_in=one_in(3 if mode == "crash" else 16)):
        run_of(done.world, "again", iter(BATCHES)).once()
        run_of(done.world, "more", iter(BATCHES)).once()
        assert_all_applied(done.world)
        tried += 1
    assert tried > 3


def test_files_are_read_once_after_a_death_at_any_call(tmp_path: Path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number, batch in enumerate(BATCHES):
        (folder / f"{number}.jsonl").write_text("\n".join(text for text in batch if '"id": "x"' not in text) + "\n")

    def run(storage: Storage) -> object:
        return run_of(storage, "first", str(folder)).once()

    for done in every_fault(run, MemoryStorage, one_in=one_in(5)):
        run_of(done.world, "again", str(folder)).once()
        assert run_of(done.world, "more", str(folder)).once().batches == 0
        lake = lake_on(done.world, "checked")
        assert rows_of(lake, "shop.a") == [{"id": 2, "n": 2, "new": "y"}]
        assert len(once_each(lake, "shop.a")) == 1


def test_a_table_that_fails_does_not_stop_the_others_and_is_tried_again(monkeypatch: pytest.MonkeyPatch):
    storage = MemoryStorage()
    real = lsmlake.api.sync.table_sync.upsert_changes

    def failing(version, runtime, name, *given):
        if name == "shop.a":
            raise CommitConflict("other commits came first")
        return real(version, runtime, name, *given)

    monkeypatch.setattr("lsmlake.api.sync.table_sync.upsert_changes", failing)
    for _ in range(2):
        with pytest.raises(CommitConflict, match="came first"):
            run_of(storage, "first", iter(BATCHES)).once()
        assert rows_of(lake_on(storage), "shop.b") == [{"id": 1, "s": "x"}]
    monkeypatch.setattr("lsmlake.api.sync.table_sync.upsert_changes", real)
    assert run_of(storage, "again", iter(BATCHES)).once().batches == 3
    assert_all_applied(storage)


def test_raise_applies_the_batch_to_the_other_tables():
    lake = new_lake()
    bad = [event("c", "a", {"id": "x", "n": 1}, 2), event("c", "b", {"id": 1}, 3)]
    lake.sync([event("c", "a", {"id": 1, "n": 1}, 1)], format="debezium-json", database="shop", primary_keys=["id"])
    given = {"format": "debezium-json", "database": "shop", "primary_keys": ["id"], "on_error": "raise"}
    with pytest.raises(InvalidData, match="column 'id': expected BIGINT, found 'x'"):
        lake.sync(bad, **given)
    assert lake.table("shop.b").count() == 1 and rows_of(lake, "shop.a") == [{"id": 1, "n": 1}]
    with pytest.raises(InvalidSchema, match="nothing says the primary key"):
        lake.sync([event("c", "c", {"id": 1}, 1)], **{**given, "primary_keys": None})
    with pytest.raises(InvalidData, match="names no table"):
        lake.sync(["{}"], **given)
    assert lake.tables("shop") == ["a", "b"]


# -- the memory -------------------------------------------------------------------------------------------------------


def test_new_files_are_found_and_changed_ones_refused(tmp_path: Path):
    lake, folder = new_lake(), tmp_path / "in"
    folder.mkdir()
    given = {"format": "debezium-json", "database": "shop", "primary_keys": ["id"], "checkpoint": tmp_path / "state"}
    assert lake.sync(folder, **given).batches == 0
    for number in range(3):
        (folder / f"{number}.log").write_text(event("c", "a", {"id": number}, number) + "\n")
        assert lake.sync(folder, **given)["a"].rows == 1
    assert lake.sync(folder, **given).batches == 0 and lake.table("shop.a").count() == 3
    with (folder / "1.log").open("a") as file:
        file.write(event("c", "a", {"id": 9}, 9) + "\n")
    with pytest.raises(InvalidData, match="has changed after it was read"):
        lake.sync(folder, **given)


def test_a_checkpoint_forgets_nothing_when_it_is_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lsmlake.api.sync.sync_checkpoint._KNOWN_EVERY", 3)
    lake, folder, state = new_lake(), tmp_path / "in", tmp_path / "state"
    folder.mkdir()
    given = {"format": "debezium-json", "database": "shop", "primary_keys": ["id"], "checkpoint": state}
    for number in range(8):
        (folder / f"{number}.log").write_text(event("c", "a", {"id": number}, number) + "\n")
        assert lake.sync(folder, **given).batches == 1
        assert lake.sync(folder, **given).batches == 0
    assert len(list(state.iterdir())) <= 6 and lake.table("shop.a").count() == 8


def test_batches_that_are_done_are_compared_and_skipped(tmp_path: Path):
    lake = new_lake()
    given = {"format": "debezium-json", "database": "shop", "primary_keys": ["id"], "checkpoint": tmp_path / "state"}
    batches = [[event("c", "a", {"id": number}, number)] for number in range(3)]
    assert lake.sync(iter(batches[:2]), **given).batches == 2
    assert lake.sync(iter(batches), **given)["a"].rows == 1
    with pytest.raises(InvalidData, match="differs from the one that was read under its number"):
        lake.sync(iter([[event("c", "a", {"id": 77}, 1)]]), **given)
    assert lake.sync(iter([(7, [event("c", "a", {"id": 9}, 9)])]), **given).batches == 1
    with pytest.raises(InvalidData, match="comes after batches with greater numbers"):
        lake.sync(iter([(5, [event("c", "a", {"id": 10}, 9)])]), **given)
    with pytest.raises(InvalidData, match="do not grow"):
        lake.sync(iter([(8, []), (8, [])]), **given)
    for other in ({"database": "b"}, {"format": "maxwell-json"}):
        with pytest.raises(InvalidQuery, match="belongs to another sync"):
            lake.sync(iter(batches), **{**given, **other})
    assert lake.table("shop.a").count() == 4


def test_texts_and_batches_are_not_mixed():
    lake, given = new_lake(), {"format": "debezium-json", "database": "shop", "primary_keys": ["id"]}
    one, other = (event("c", "a", {"id": number}, number) for number in (1, 2))
    for mixed in (iter([one, [other]]), iter([one, (7, [other])]), [one, 7], iter([[one, {}]])):
        with pytest.raises(InvalidData, match=r"cannot be read together.*; pass an iterator of texts or an iterator of batches"):
            lake.sync(mixed, **given)
    assert lake.sync(iter([[one], other]), **given).batches == 2


def test_texts_alone_are_put_together_to_batches():
    lake = new_lake()
    texts = (event("c", "a", {"id": number}, number) for number in range(50))
    report = lake.sync(texts, format="debezium-json", database="shop", primary_keys=["id"])
    assert (report.batches, report["shop.a"].commits, report["a"].rows) == (1, 1, 50)
    assert report.to_arrow()["created"].to_pylist() == [True]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"options": {"bukket": 1}}, "bukket"),
        ({"options": {"bucket": "x"}}, "option 'bucket' has an invalid value"),
        ({"table_prefix": "a/"}, "table_prefix and table_suffix"),
        ({"primary_keys": ["id", "id"]}, "primary_keys names a column twice"),
        ({"primary_keys": {"a": [""]}}, "primary_keys has an empty name"),
        ({"partition_by": {"a": ["n", "n"]}}, "partition_by names a column twice"),
        ({"primary_keys": {"shop.a": ["id"]}}, "without the database"),
        ({"computed_columns": {"a": {"m": "n +"}}}, "a column cannot be computed"),
        ({"computed_columns": {"a": {"id": "n + 1"}}}, "cannot be in the primary key"),
        ({"computed_columns": {"a": {"m": "n + sum(n)"}}}, "a, computed column 'm'.*computed from one row.*sum"),
        ({"computed_columns": {"a": {"m": "row_number() OVER (ORDER BY n)"}}}, "computed from one row"),
        ({"computed_columns": {"a": {"m": "(SELECT 1)"}}}, "computed from one row"),
        ({"computed_columns": {"a": {"m": "n + rand()"}}}, "the same each time"),
        ({"computed_columns": {"a": {"m": "uuid()"}}}, "the same each time"),
        ({"computed_columns": {"a": {"m": "date_diff(now(), to_date(n))"}}}, "a, computed column 'm'.*the same each time.*now()"),
        ({"computed_columns": {"a": {"m": "current_timestamp"}}}, "the same each time.*a column of this name in backquotes"),
        ({"computed_columns": {"a": {"m": "unix_timestamp() + n"}}}, "the same each time, also when the batch is applied again"),
        ({"computed_columns": {"a": {"m": "DATE'Today '"}}}, "the same each time.*from a time that the events have"),
        ({"computed_columns": {"a": {"m": "try_cast('now' AS TIMESTAMP)"}}}, "the same each time"),
        ({"computed_columns": {"a": {"m": "n + :shift"}}}, "a parameter has no value"),
        ({"computed_columns": {"a": {"m": "concatt(n, 'x')"}}}, r"the function concatt is not supported.*did you mean concat\?"),
        ({"computed_columns": {"a": {"m": "n", "M": "n"}}}, "case does not tell names apart"),
        ({"primary_keys": []}, "primary_keys names no column"),
        ({"primary_keys": {"a": []}}, "primary_keys names no column"),
    ],
)
def test_wrong_arguments_are_refused_before_an_event_is_read(given: dict, words: str):
    lake = new_lake()
    events = iter([event("c", "a", {"id": 1, "n": 1}, 1)])
    with pytest.raises((InvalidQuery, InvalidOption), match=words):
        lake.sync(events, **{"format": "debezium-json", "database": "shop", "primary_keys": ["id"], **given})
    assert len(list(events)) == 1 and "shop" not in lake.databases()


def test_a_table_that_takes_the_name_of_the_rejected_events_is_refused_with_a_cure_for_sync():
    lake = new_lake()
    lake.create_database("shop")
    lake.create_table("shop.a_rejected", "id INT")
    events = [event("c", "a", {"id": 1}, 1), event("c", "a", {"id": "x"}, 2)]
    lake.create_table("shop.a", "id INT NOT NULL", primary_key=["id"])
    with pytest.raises(InvalidData, match=r"the table for rejected events has other columns.*another name by rename_table"):
        lake.sync(events, format="debezium-json", database="shop")
    lake.rename_table("shop.a_rejected", "shop.older")
    assert lake.sync(events, format="debezium-json", database="shop")["a"].rejected == 1


IN_S = {"db": "s", "table": "new"}
IN_CANAL = {"database": "s", "table": "new"}
WITHOUT_COLUMNS = [
    ("debezium-json", {"op": "c", "after": None, "source": IN_S}, "no value for the key column"),
    ("debezium-json", {"op": "X", "source": IN_S}, "unknown operation 'X'"),
    ("debezium-json", {"op": "c", "after": {"id": None, "n": None}, "source": IN_S}, "no value for the key column"),
    ("debezium-json", {"op": "d", "source": IN_S}, "no value for the key column"),
    ("debezium-json", {"schema": {}, "payload": {"op": "c", "after": {"id": 1}, "source": IN_S}}, "describe no columns"),
    ("canal-json", {**IN_CANAL, "type": "INSERT", "data": []}, "no value for the key column"),
    ("maxwell-json", {**IN_CANAL, "type": "insert"}, "no value for the key column"),
]


@pytest.mark.parametrize(("format", "bad", "words"), WITHOUT_COLUMNS)
@pytest.mark.parametrize("key", [["id"], None])
def test_a_bad_event_of_a_table_that_is_not_there_is_rejected(format: str, bad: dict, words: str, key: list[str] | None):
    lake, words = new_lake(), words if key else words.replace("describe no columns", "no value for the key column")
    given = {"format": format, "database": "d", "primary_keys": key}
    assert lake.sync([json.dumps(bad)], **given)["new"].rejected == 1 and lake.tables("d") == ["new_rejected"]
    assert words in rows_of(lake, "d.new_rejected")[0]["reason"]
    with pytest.raises((InvalidData, InvalidSchema), match=words):
        lake.sync([json.dumps(bad)], **given, on_error="raise")


def test_an_event_without_work_of_a_table_that_is_not_there_is_no_error():
    lake = new_lake()
    keyed = pa.table({"value": [None, json.dumps({"op": "t", "source": IN_S})], "key": ['{"id": 1}', None]})
    report = lake.sync(keyed, format="debezium-json", database="d", on_error="raise")
    assert report["new"].rejected == 0 and lake.tables("d") == []
    canal = [json.dumps({**IN_CANAL, "type": kind, "isDdl": True, "sql": "-"}) for kind in ("TRUNCATE", "CREATE")]
    lake.sync(canal, format="canal-json", database="d", on_error="raise")
    assert lake.tables("d") == []


def test_every_looks_for_new_files_until_it_is_stopped(tmp_path: Path):
    looked: list[float] = []
    lake = new_lake()

    def waits(seconds: float) -> None:
        looked.append(seconds)
        (tmp_path / f"{len(looked)}.log").write_text(event("c", "a", {"id": len(looked)}, 1) + "\n")
        if len(looked) == 3:
            raise KeyboardInterrupt

    object.__setattr__(lake.env, "sleep", waits)
    with pytest.raises(KeyboardInterrupt):
        lake.sync(tmp_path, format="debezium-json", database="shop", primary_keys=["id"], every="2 s", checkpoint=tmp_path / ".c")
    with pytest.raises(InvalidQuery, match="every needs a checkpoint"):
        lake.sync(tmp_path, format="debezium-json", database="shop", every="2 s")
    assert looked == [2.0] * 3 and lake.table("shop.a").count() == 2


# -- names, keys, columns ---------------------------------------------------------------------------------------------


def test_names_are_chosen_and_mapped():
    lake = new_lake()
    events = [event("c", name, {"id": 1}, 1, db=db) for db in ("shop", "hr") for name in ("orders", "tmp_x", "items")]
    given = {"format": "debezium-json", "database": "lake", "primary_keys": ["id"]}
    words = {"tables": r"(shop|hr)\..*", "excluding_tables": r".*\.tmp_.*", "table_prefix": "p_", "table_suffix": "_s"}
    lake.sync(events, **given, **words, table_mapping={r"shop\.orders": "orders", r"hr\.(.*)": "hr"}, merge_shards=True)
    assert lake.tables("lake") == ["hr", "orders", "p_items_s"]


def test_two_tables_become_one_only_if_that_is_said():
    lake = new_lake()
    given = {"format": "debezium-json", "database": "shop", "primary_keys": ["id"]}
    first, second = (event("c", "orders", {"id": number}, 1, db=f"db{number}") for number in (1, 2))
    report = lake.sync([first, second], **given)
    assert report["orders"].rejected == 1 and "merge_shards" in report["orders"].reasons[0]
    assert rows_of(lake, "shop.orders") == [{"id": 1}]
    truncated = event("t", "orders", None, 3, db="db1")
    assert lake.sync([truncated, second], **given, merge_shards=True)["orders"].rejected == 1
    assert rows_of(lake, "shop.orders") == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("canal-json", '"pkNames": ["b", "a"], "mysqlType": {"a": "int", "b": "int"}'),
        ("maxwell-json", '"primary_key_columns": ["b", "a"]'),
    ],
)
def test_keys_come_from_the_events(name: str, text: str):
    lake = new_lake()
    data = '[{"a": "1", "b": "2"}]' if name == "canal-json" else '{"a": 1, "b": 2}'
    kind = "INSERT" if name == "canal-json" else "insert"
    lake.sync([f'{{"database": "x", "table": "t", "type": "{kind}", "data": {data}, {text}}}'], format=name, database="d")
    assert lake.table("d.t").primary_key == ("b", "a")


def test_a_source_that_changes_its_key_is_refused():
    lake = new_lake()
    given = {"format": "debezium-json", "database": "shop"}
    lake.sync(pa.table({"value": [event("c", "t", {"a": 1, "b": 1}, 1)], "key": ['{"a": 1}']}), **given)
    other = pa.table({"value": [event("c", "t", {"a": 1, "b": 2}, 2)], "key": ['{"a": 1, "b": 2}']})
    report = lake.sync(other, **given)
    assert report["t"].rejected == 1 and "another primary key" in report["t"].reasons[0]
    assert lake.sync(other, **given, primary_keys={"t": ["a"]})["t"].rejected == 0
    assert lake.sync(other, **given, primary_keys={"t": ["b"]})["t"].rejected == 1


def typed(columns: dict[str, str], row: dict[str, object], place: int, table: str = "t") -> str:
    made = SourceTable("shop", table, columns)
    return source.debezium(source.Change(made, columns, "c", row, None, place))


def test_a_type_that_is_no_widening_is_refused_by_name_and_others_go_on():
    lake = new_lake()
    given = {"format": "debezium-json", "database": "shop", "primary_keys": ["id"]}
    events = [
        typed({"id": "int", "n": "int"}, {"id": 1, "n": 5}, 1),
        typed({"id": "int", "n": "varchar(9)"}, {"id": 2, "n": "007"}, 2),
    ]
    events += [typed({"id": "int", "n": "bigint"}, {"id": 3, "n": 5 << 40}, 3), typed({"id": "int"}, {"id": 1}, 4, "u")]
    report = lake.sync(events, **given)
    (reason,) = report["t"].reasons
    assert "shop.t, column 'n'" in reason and "expected INT, found STRING" in reason
    assert rows_of(lake, "shop.t") == [{"id": 1, "n": 5}, {"id": 3, "n": 5 << 40}] and rows_of(lake, "shop.u") == [{"id": 1}]
    assert report["t"].columns_widened == ("n",) and lake.table("shop.t_rejected").count() == report["t"].rejected == 1


def test_evolve_says_what_may_change():
    columns, wider = {"id": "int", "n": "int"}, {"id": "int", "n": "bigint", "new": "int"}
    events = [typed(columns, {"id": 1, "n": 1}, 1)], [typed(wider, {"id": 2, "n": 2, "new": 3}, 2)]
    seen = {}
    for evolve in ("widen", "add", "refuse"):
        lake = new_lake()
        for batch in events:
            report = lake.sync(batch, format="debezium-json", database="shop", primary_keys=["id"], evolve=evolve)
        seen[evolve] = [str(type_) for type_ in lake.table("shop.t").schema.types], report["t"].rejected
    assert seen == {
        "widen": (["int32", "int64", "int32"], 0),
        "add": (["int32", "int32", "int32"], 0),
        "refuse": (["int32", "int32"], 1),
    }


def test_types_are_inferred_by_a_rule():
    lake = new_lake()
    given = {"format": "debezium-json", "database": "shop", "primary_keys": ["id"]}
    row = {"id": 1, "whole": 7, "part": 1.5, "yes": True, "text": "2024-01-02", "list": [1], "object": {"a": 1}, "none": None}
    lake.sync([event("c", "t", row, 1)], **given)
    types = {field.name: str(field.type) for field in lake.table("shop.t").schema}
    whole = {"id": "int64", "whole": "int64", "part": "double", "yes": "bool"}
    assert types == whole | {"text": "string", "list": "string", "object": "string"}
    lake.sync([event("c", "t", {"id": 2, "whole": 2.25, "none": "x"}, 2)], **given)
    assert [one["whole"] for one in rows_of(lake, "shop.t")] == [Decimal(7), Decimal("2.25")]
    assert [one["none"] for one in rows_of(lake, "shop.t")] == [None, "x"]
    lake.sync([event("c", "texts", {"id": "a", "n": 1}, 1)], **given, infer_types=False)
    assert rows_of(lake, "shop.texts") == [{"id": "a", "n": "1"}]


def test_a_table_that_is_there_keeps_its_types():
    lake = new_lake()
    lake.create_table("d.t", "id INT NOT NULL, at TIMESTAMP, day DATE", primary_key=["id"])
    lake.sync(
        [event("c", "t", {"id": 1, "at": "2024-01-02 03:04:05", "day": "2024-01-02"}, 1)], format="debezium-json", database="d"
    )
    (row,) = rows_of(lake, "d.t")
    assert (row["at"], row["day"]) == (dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc), dt.date(2024, 1, 2))


def test_columns_are_computed_and_partition_the_table():
    lake = new_lake()
    given = {"format": "debezium-json", "database": "shop", "primary_keys": ["id"], "partition_by": {"t": ["dt"]}}
    given |= {"computed_columns": {"t": {"dt": "to_date(at)", "twice": "n * 2"}}, "options": {"bucket": 2}}
    mark = "__debezium_unavailable_value"
    lake.sync([event("c", "t", {"id": 1, "at": "2024-01-02", "n": 1, "body": "b"}, 1)], **given)
    assert lake.table("shop.t").partition_by == ("dt",) and lake.table("shop.t").options["bucket"] == "2"
    lake.sync([event("u", "t", {"id": 1, "at": mark, "n": 5, "body": mark}, 2), event("c", "u", {"id": 1}, 3)], **given)
    (row,) = rows_of(lake, "shop.t")
    assert row == {"id": 1, "at": "2024-01-02", "n": 5, "body": "b", "dt": dt.date(2024, 1, 2), "twice": 10}
    partly = {"t": {"both": "concat(at, body)"}}
    report = lake.sync(
        [event("u", "t", {"id": 1, "at": "2024-01-03", "n": 5, "body": mark}, 4)], **{**given, "computed_columns": partly}
    )
    (found,) = lake.table("shop.t_rejected").to_arrow().to_pylist()
    assert report["t"].rejected == 1 and "lacks unchanged values" in found["reason"]
    for computed, words in (({"n": "1"}, "name of a field"), ({"x": "nope + 1"}, "nope"), ({"x": "NULL"}, "no type")):
        report = lake.sync([event("c", "t", {"id": 2, "n": 1}, 5)], **{**given, "computed_columns": {"t": computed}})
        assert words in report["t"].reasons[0]


def test_columns_with_the_names_of_functions_and_words_for_times_are_read():
    """A name in backquotes is a column, and 'now' is a text where it is no time."""
    lake, row = new_lake(), {"id": 1, "current_date": "a", "s": "now"}
    computed = {"t": {"m": "concat(`current_date`, '-', s)", "same": "s = 'now'", "pos": "transform(array(id), x -> x + 1)"}}
    lake.sync([event("c", "t", row, 1)], format="debezium-json", database="d", primary_keys=["id"], computed_columns=computed)
    assert rows_of(lake, "d.t") == [row | {"m": "a-now", "same": True, "pos": [2]}]


def test_an_event_of_which_nothing_can_be_computed_is_rejected_alone():
    """Also one whose computed value does not fit its column, and one that lacks some of the values to compute from."""
    lake = new_lake()
    columns = "id BIGINT NOT NULL, n STRING, body STRING, number INT NOT NULL, short VARCHAR(3), small TINYINT"
    lake.create_table("d.t", columns, primary_key=["id"])
    computed = {"number": "CAST(n AS INT)", "short": "concat(n, body)", "small": "CAST(n AS INT) * 100"}
    mark = "__debezium_unavailable_value"
    rows = [("1", "a"), ("x", "a"), (None, "a"), ("1", "abc"), ("2", "a"), ("y", None), ("x", "b"), ("1", mark), ("0", None)]
    events = [event("c", "t", {"id": id, "n": n, "body": body}, id) for id, (n, body) in enumerate(rows)]
    events.append(event("d", "t", None, 20, {"id": 8}))
    given = {"format": "debezium-json", "database": "d", "primary_keys": ["id"], "computed_columns": {"t": computed}}
    report = lake.sync(events, **given)
    assert (report["t"].rejected, report["t"].reasons) == (7, ())
    assert rows_of(lake, "d.t") == [{"id": 0, "n": "1", "body": "a", "number": 1, "short": "1a", "small": 100}]
    found = lake.table("d.t_rejected").to_arrow().sort_by("position").to_pylist()
    words = ["'x' is not an integer", "'number' is NOT NULL, and the value computed", "has 4 characters", "small"]
    words += ["'y' is not an integer", "'x' is not an integer", "lacks unchanged values that the computed column 'short'"]
    assert [json.loads(one["event"])["after"]["id"] for one in found] == [1, 2, 3, 4, 5, 6, 7]
    for one, word in zip(found, words, strict=True):
        assert word in one["reason"], one
    with pytest.raises(InvalidData, match=r"an event cannot be read: .*nothing can be computed for the column 'number'.*'x'"):
        lake.sync(events, **given, on_error="raise")
    hopeless = [event("c", "t", {"id": 100 + id, "n": f"x{id}", "body": "a"}, 100 + id) for id in range(200)]
    report = lake.sync(hopeless, **given)
    assert report["t"].rejected == 200 and "a column cannot be computed" in report["t"].reasons[0]


def test_a_definition_of_dms_makes_the_table():
    definition = {
        "columns": {"id": {"type": "INT64"}, "price": {"type": "NUMERIC", "precision": 10, "scale": 2}, "t": {"type": "DATE"}}
    }
    metadata = {"record-type": "control", "operation": "create-table", "schema-name": "shop", "table-name": "items"}
    control = {"control": {"table-def": {**definition, "primaryKey": ["id"]}}, "metadata": metadata}
    row = {"data": {"id": 1, "price": 1.5, "t": "2024-01-02"}, "metadata": {**metadata, "operation": "insert"}}
    lake = new_lake()
    lake.sync([json.dumps(control), json.dumps(row)], format="aws-dms", database="d")
    assert rows_of(lake, "d.items") == [{"id": 1, "price": Decimal("1.50"), "t": dt.date(2024, 1, 2)}]
    assert lake.table("d.items").primary_key == ("id",)


GOLDEN = Path(__file__).parents[1] / "golden" / "change_events"


def test_golden_events_make_their_tables():
    lake = new_lake()
    lake.sync(GOLDEN / "debezium_mysql_schema.jsonl", format="debezium-json", database="m", primary_keys=["id"])
    types = [str(type_) for type_ in lake.table("m.items").schema.types]
    times = ["date32[day]", "time64[us]", "timestamp[us]", "timestamp[us, tz=UTC]"]
    assert types == ["int64", "decimal128(10, 2)", *times, *["string"] * 3, "binary", "int32"]
    lake.sync(GOLDEN / "canal.jsonl", format="canal-json", database="c")
    assert rows_of(lake, "c.items")[0]["price"] == Decimal("1.50") and lake.table("c.items").primary_key == ("id",)
    lake.sync(GOLDEN / "mongodb_change_stream.jsonl", format="mongodb", database="mongo")
    (document,) = rows_of(lake, "mongo.items")
    assert (document["name"], document["data"]) == ("z", b"\x00\xff")
    lake.sync(GOLDEN / "ogg.jsonl", format="ogg-json", database="o", primary_keys=["ID"])
    assert [one["NAME"] for one in rows_of(lake, "o.ITEMS")] == ["z"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"format": "plain"}, "do not say which table"),
        ({"tables": "("}, "not a regular expression"),
        ({"evolve": "always"}, "evolve"),
        ({"on_error": "skip"}, "on_error"),
        ({"primary_keys": "id"}, "primary_keys"),
        ({"primary_keys": {"t": "id"}}, "primary_keys"),
        ({"table_mapping": {"x": "a b"}}, "not the name of a table"),
        ({"every": "2 s"}, "every looks for new files"),
        ({"trigger": {"availableNow": True}}, "no use for trigger"),
        ({"database": "a b"}, "a b"),
    ],
)
def test_arguments_that_are_not_valid_are_refused(given: dict[str, object], words: str):
    lake = new_lake()
    with pytest.raises(LakeError, match=words):
        lake.sync([event("c", "t", {"id": 1}, 1)], **{"format": "debezium-json", "database": "shop", **given})
    assert lake.databases() == ["d"]


def test_a_name_that_no_table_can_have_is_mapped_or_rejected():
    lake = new_lake()
    given = {"format": "debezium-json", "database": "shop", "primary_keys": ["id"]}
    bad = [event("c", "or ders", {"id": 1}, 1)]
    assert "no table can have this name" in lake.sync(bad, **given)["or ders"].reasons[0]
    assert lake.table("shop.rejected_events").count() == 1
    assert lake.sync(bad, **given, table_mapping={r"shop\.or ders": "orders"})["orders"].rows == 1


def test_a_source_without_events_of_tables_changes_nothing():
    lake = new_lake()
    texts = ['{"ts_ms": 5}', event("m", "", None, 1), "null"]
    report = lake.sync(texts, format="debezium-json", database="shop")
    assert (report.batches, report.tables, report.rejected) == (1, (), 0) and lake.tables("shop") == []
    with pytest.raises(InvalidData, match="not data"):
        lake.sync(object(), format="debezium-json", database="other")
    assert lake.databases() == ["d", "shop"]


def test_a_value_of_any_depth_does_not_stop_the_other_events():
    """Deeper than the parser of Python follows: its field is a text, as that of any list."""
    lake, deep = new_lake(), "[" * 3000 + "]" * 3000
    texts = [
        event("c", "t", {"id": 1, "v": "DEEP", "n": 7}, 1).replace('"DEEP"', deep),
        event("c", "t", {"id": 2, "v": None, "n": 8}, 2),
    ]
    report = lake.sync(texts, format="debezium-json", database="d", primary_keys=["id"])
    assert report.rejected == 0
    assert [tuple(one.values()) for one in rows_of(lake, "d.t")] == [(1, deep, 7), (2, None, 8)]


def test_a_pattern_that_matches_nothing_is_reported(caplog: pytest.LogCaptureFixture):
    lake, given = new_lake(), {"format": "debezium-json", "database": "lake", "primary_keys": ["id"]}
    events = [event("c", "orders", {"id": 1}, 1), event("c", "people", {"id": 1}, 2)]
    report = lake.sync(iter([events[:1], events]), **given, tables="orders")
    assert (report.left_out, report.tables, lake.tables("lake")) == (("shop.orders", "shop.people"), (), [])
    assert "leave out all its tables: shop.orders, shop.people" in caplog.text
    caplog.clear()
    report = lake.sync(events, **given, excluding_tables=r"shop\.people", table_mapping={r"shop\.ordrs": "x"})
    assert (report.unmatched, report.left_out, lake.tables("lake")) == (("x",), ("shop.people",), ["orders"])
    assert report.idle == (r"table_mapping 'shop\\.ordrs'",) and not caplog.records
    patterns = {"excluding_tables": "shop.log", "table_mapping": {"shop.people": "people", "shop.orders": "orders"}}
    report = lake.sync(iter([[one] for one in events]), **given, **patterns)
    assert report.idle == ("excluding_tables 'shop.log'",)  # each name is mapped in one of the batches


def test_arguments_that_decide_nothing_are_reported():
    lake, given = new_lake(), {"format": "debezium-json", "database": "d", "primary_keys": ["id"]}
    one, other = event("c", "a", {"id": 1}, 1), event("c", "b", {"id": 1}, 2)
    names = {"table_prefix": "x_", "table_suffix": "_y", "table_mapping": {r"shop\.a": "a"}}
    assert lake.sync([one], **given, **names).idle == ("table_prefix 'x_'", "table_suffix '_y'")
    assert lake.sync(iter([[one], [other]]), **given, **names).idle == ()
    assert lake.tables("d") == ["a", "x_b_y"]
    options = {"options": {"bucket": 2, "changelog-producer": "none"}}
    report = lake.sync([one, event("c", "c", {"id": 1}, 3)], **given, **options)
    assert report.idle == ("options bucket for a, which has other values",)
    assert lake.sync([event("c", "c", {"id": 2}, 4)], **given, options={"bucket": "2"}, infer_types=False).idle == ()
    declared = {"table": "e", "pkNames": ["id"], "mysqlType": {"id": "int"}, "data": [{"id": "1"}], "type": "INSERT"}
    text = json.dumps({"database": "shop", "isDdl": False, "es": 1, "ts": 1, "id": 1, "old": None, **declared})
    report = lake.sync([text], format="canal-json", database="d", infer_types=False)
    assert report.idle == ("infer_types=False, as the events declare their types",)


def test_partitions_that_a_table_does_not_get_are_refused_or_reported():
    lake, given = new_lake(), {"format": "debezium-json", "database": "shop", "primary_keys": ["id"]}
    assert lake.sync([event("c", "t", {"id": 1, "n": 1}, 1)], **given).idle == ()
    for other in ([event("c", "t", {"id": 2, "n": 1, "nope": 1}, 2)], []):
        with pytest.raises(
            InvalidQuery, match=r"shop\.t: partition_by names columns that a table lacks.*found \['days\(nope\)'\]"
        ):
            lake.sync(other, **given, partition_by={"t": ["days(nope)"]})
    assert lake.table("shop.t").count() == 1
    report = lake.sync([event("c", "t", {"id": 2, "n": 1}, 2)], **given, partition_by=["nope"])
    assert report["t"].rows == 1 and report.idle == ("partition_by nope for t, which has other partitions",)
    report = lake.sync([event("c", "u", {"id": 2, "n": 1}, 2)], **given, partition_by={"t": ["n"], "u": ["n"]})
    assert report.idle == () and lake.table("shop.u").partition_by == ("n",)
    with pytest.raises(InvalidQuery, match="a computed column has no name"):
        lake.sync([], **given, computed_columns={"t": {"": "id"}})


def test_names_of_tables_that_are_not_there_are_reported():
    lake = new_lake()
    given = {"primary_keys": {"people": ["id"], "peple": ["id"]}, "computed_columns": {"orders": {"a": "1"}}}
    first = lake.sync([event("c", "people", {"id": 1}, 1)], format="debezium-json", database="shop", **given)
    assert first.unmatched == ("orders", "peple") and first["people"].rows == 1
    later = [event("c", "people", {"id": 2}, 2)]
    report = lake.sync(later, format="debezium-json", database="shop", primary_keys={"people": ["id"]})
    assert report.unmatched == ()
    with pytest.raises(InvalidSchema, match=r"lack key columns \['nope'\].*found \['id'\]"):
        other = [event("c", "log", {"id": 1}, 3)]
        lake.sync(other, format="debezium-json", database="shop", primary_keys=["nope"], on_error="raise")
