"""Statistics: what an analysis finds, against rows of a second reader; which snapshots name it; how long its file stays."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest
from analyzed import VALUES, statistics
from command_line import call, complaint
from faults import Crash, FaultStorage
from naive import naive, unreferenced
from storage_clock import Clock
from strategies import Shape, contents, copied, lake_on, new_lake, tiny_units

from lsmlake import add_column, drop_column, rename_column
from lsmlake.api.table import Table
from lsmlake.errors import Corrupt, InvalidQuery
from lsmlake.format.snapshot import Snapshot
from lsmlake.read.measure import KEPT_MAX, DistinctSketch
from lsmlake.schema.envelope import wrap_json
from lsmlake.storage.memory import MemoryStorage
from lsmlake.warehouse import connect

# -- the sketch -------------------------------------------------------------------------------------------------------


def sketched(values: pa.Array, rows: int = 40_000) -> int:
    sketch = DistinctSketch()
    for start in range(0, len(values), rows):
        sketch.add(values.slice(start, rows))
    return sketch.estimate


@pytest.mark.parametrize("distinct", [0, 1, 2, 1_000, KEPT_MAX - 1_000])
def test_few_values_are_counted(distinct: int):
    numbers = np.arange(distinct) * 7_919
    values = pa.array(np.concatenate([numbers, numbers[::-1]]), mask=np.arange(2 * distinct) % 2 == 0)
    assert abs(sketched(values) - distinct) <= 2  # two of the 2 ** 32 hashes may be equal


@pytest.mark.parametrize("distinct", [100_000, 1_000_000])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_many_values_are_estimated(distinct: int, seed: int):
    """Within four standard errors, also as text, and if some occur far more often than others."""
    numbers = np.random.default_rng(seed).permutation(distinct).astype(np.int64) * 31 + seed
    values = pa.array(np.concatenate([numbers, np.full(20_000, numbers[0])]))
    assert sketched(values) == pytest.approx(distinct, rel=0.024)
    if distinct == 100_000:
        assert sketched(values.cast(pa.string())) == pytest.approx(distinct, rel=0.024)


def test_the_order_and_the_parts_do_not_matter():
    values = pa.array(np.random.default_rng(5).integers(0, 300_000, 400_000))
    assert len({sketched(values, rows) for rows in (1_000, 40_000, 400_000)} | {sketched(values[::-1])}) == 1


# -- what is found ----------------------------------------------------------------------------------------------------


def text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.hex() if isinstance(value, bytes) else str(value)


def expected(values: Iterable[object], *, nested: bool) -> dict:
    values = list(values)
    there = [0.0 if value == 0 and isinstance(value, float) else value for value in values if value is not None]
    found = {"nullCount": len(values) - len(there), "distinctCount": None, "min": None, "max": None}
    found |= {"avgLen": None, "maxLen": None}
    if nested:
        return found
    found["distinctCount"] = len({"nan" if value != value else value for value in there})
    if there:
        order = sorted(there, key=lambda value: (value != value, 0 if value != value else value))
        found |= {"min": text(order[0]), "max": text(order[-1])}
        if isinstance(there[0], (str, bytes)):
            lengths = list(map(len, there))
            found |= {"avgLen": math.ceil(sum(lengths) / len(lengths)), "maxLen": max(lengths)}
    return found


@pytest.mark.parametrize("vectors", [True, False])
def test_the_statistics_are_those_of_the_visible_rows(vectors: bool):
    """All types, NaN, -0.0 and nulls; rows that wait at level 0, superseded and deleted ones, small chunks."""
    shape = Shape.of("bigint", "string", {**VALUES, "d": Shape.of("bigint").kind("d"), "tags": Shape.of("bigint").kind("tags")})
    chance = random.Random(7)
    with tiny_units(rows=16, window_bytes=1 << 16):
        table = shape.create(new_lake(), bucket=2, deletion_vectors__enabled=vectors)
        for number, compact in enumerate((None, None, False, False)):
            rows = []
            for code in range(7 * number, 7 * number + 30):
                values = [chance.choice([None, *kind.values]) for name, kind in shape.columns[2:]]
                rows.append((*shape.key_values(code), *values))
            unique = {shape.key_of(row): row for row in rows}
            table.upsert(shape.table(list(unique.values()), table.schema), compact=compact)
        table.delete_keys(table.scan(limit=9).to_arrow().select(list(table.primary_key)), compact=False)
        snapshot = table.analyze()
    second = naive(table)
    latest = second.snapshots()[snapshot.id]
    rows = second.rows(latest, vectors=vectors)
    found = statistics(table)
    assert (found["snapshot_id"], found["schema_id"], found["mergedRecordCount"]) == (snapshot.id - 1, 0, len(rows))
    stored = sum(file["file_size_in_bytes"] for file in table.files().to_pylist())
    assert found["mergedRecordSize"] == round(stored * len(rows) / sum(file.rows for file in second.files(latest)))
    assert list(found["colstat"]) == list(shape.names)
    for name, number in table.version.schema.field_ids().items():
        values = [row[name] for row in rows]
        one = found["colstat"][name]
        if table.schema.field(name).type == pa.timestamp("us", "UTC"):
            one["min"], one["max"] = (value and value.replace("+00:00", "") for value in (one["min"], one["max"]))
            values = [value and value.replace(tzinfo=None) for value in values]
        if table.schema.field(name).type == pa.float32():
            values = [value if value is None else np.float32(value).item() for value in values]
        assert one == {"colId": number, **expected(values, nested=name == "tags")}, name


def test_the_columns_to_analyze():
    table = made()
    assert table.analyze() is None, "nothing was ever written"
    assert table.system_table("statistics").num_rows == 0
    write(table, range(5), "a")
    table.analyze(["V", "k"])
    assert list(statistics(table)["colstat"]) == ["v", "k"]
    table.analyze([])
    assert (statistics(table)["mergedRecordCount"], statistics(table)["colstat"]) == (5, {})
    with pytest.raises(InvalidQuery, match=r"unknown columns.*found \['x'\]"):
        table.analyze(["x"])
    table.truncate()
    table.analyze()
    found = statistics(table)
    assert (found["mergedRecordCount"], found["mergedRecordSize"]) == (0, 0)
    assert {(one["distinctCount"], one["min"], one["nullCount"], one["avgLen"]) for one in found["colstat"].values()} == {
        (0, None, 0, None)
    }


def test_long_bounds_are_cut_and_stay_bounds():
    table = made()
    longest, highest = "b" * 1_000, "\U0010ffff" * 300
    table.upsert({"k": [1, 2], "v": [longest, highest]})
    table.analyze()
    found = statistics(table)["colstat"]["v"]
    assert (found["min"], found["max"], found["maxLen"], found["avgLen"]) == ("b" * 256, None, 1_000, 650)
    table.overwrite({"k": [1], "v": [longest]}, truncate=True)
    table.analyze()
    assert statistics(table)["colstat"]["v"]["max"] == "b" * 255 + "c"


# -- which snapshots name them ----------------------------------------------------------------------------------------


def made(storage: MemoryStorage | None = None, **options: object) -> Table:
    given = {"bucket": 1, "snapshot.expire.on-commit": False, **options}
    return new_lake(storage).create_table("d.t", "k INT, v STRING", primary_key=["k"], options=given)


def write(table: Table, keys: range, value: str, **how: object) -> None:
    table.upsert({"k": list(keys), "v": [value] * len(keys)}, **how)


def counts(table: Table, **at: object) -> int | None:
    found = table.system_table("statistics", **at)
    return found["mergedRecordCount"][0].as_py() if found.num_rows else None


def test_later_snapshots_keep_them():
    table = made()
    write(table, range(5), "a")
    analyzed = table.analyze()
    assert (analyzed.kind, analyzed.delta_rows, analyzed.total_rows) == ("ANALYZE", 0, 5)
    assert table.changes(1).count() == 0, "an analysis changes no row"
    write(table, range(3, 9), "b")
    table.delete_keys({"k": [1]})
    table.compact(full=True)
    table.overwrite({"k": [1], "v": ["c"]}, truncate=True)
    table.alter(rename_column("v", "w"), add_column("x", "INT", default=3))
    assert (counts(table), counts(table, snapshot=2)) == (5, 5)
    assert counts(table, snapshot=1) is None
    assert list(statistics(table)["colstat"]) == ["k", "w"], "columns are known by id"
    table.alter(drop_column("w"))
    assert list(statistics(table)["colstat"]) == ["k"]
    table.analyze()
    assert (counts(table), list(statistics(table)["colstat"])) == (1, ["k", "x"])
    assert table.verify() == []


def test_tags_branches_and_rollbacks_have_those_of_their_snapshot():
    table = made()
    write(table, range(5), "a")
    table.analyze()
    table.create_tag("five")
    branch = table.create_branch("b", tag="five")
    write(table, range(8), "b")
    table.analyze()
    write(branch, range(6), "c")
    assert (counts(table), counts(table, tag="five"), counts(branch)) == (8, 5, 5)
    branch.analyze()
    assert (counts(table), counts(branch)) == (8, 6)
    table.expire_snapshots(retain_max=1)
    assert (counts(table), counts(table, tag="five"), counts(branch)) == (8, 5, 6)
    table.rollback(tag="five")
    assert counts(table) == 5
    write(table, range(8), "d")
    table.analyze()
    table.rollback(tag="five", cut=True)
    assert counts(table) == 5
    assert table.verify() == [] == unreferenced(table)


def test_the_file_stays_as_long_as_a_snapshot_names_it():
    storage = MemoryStorage()
    table = made(storage)

    def files() -> int:
        return sum("/statistics-" in path for path in contents(storage))

    for number in range(3):
        write(table, range(number + 2), "a")
        table.analyze()
        write(table, range(9), "b")
    assert files() == 3
    table.expire_snapshots(retain_max=2)
    assert (files(), counts(table)) == (1, 9)
    table.create_tag("nine")
    write(table, range(11), "c")
    table.analyze()
    table.expire_snapshots(retain_max=1)
    assert (files(), counts(table), counts(table, tag="nine")) == (2, 11, 9)
    table.delete_tag("nine")
    assert (files(), unreferenced(table)) == (1, [])


def test_what_a_killed_analysis_left_is_an_orphan():
    clock = Clock()
    storage, table = clock.storage, made(clock.storage)
    write(table, range(5), "a")
    watched = FaultStorage(copied(storage))
    lake_on(watched, "dead-").table("d.t").analyze()
    published = next(place for place, (verb, _) in enumerate(watched.calls, 1) if verb == "put_if_absent")
    with pytest.raises(Crash):
        lake_on(FaultStorage(storage).fail_at(published), "dead-").table("d.t").analyze()
    left = unreferenced(table)
    table.analyze()
    clock.pass_days(2)
    report = table.remove_orphan_files()
    assert (sorted(report.paths), report.kinds["statistics"]) == (sorted(left), 1)
    assert counts(table) == 5


# -- damage -----------------------------------------------------------------------------------------------------------


def test_damage_hurts_nothing_but_the_statistics():
    storage = MemoryStorage()
    table = made(storage)
    write(table, range(5), "a")
    path = table.meta.paths.manifest(table.analyze().statistics.name)
    good = contents(storage)[path]
    content = json.loads(good)
    forged = [b"", good[:-9], good.replace(b'"rows": 5', b'"rows": 6'), None]
    del content["format"], content["version"], content["checksum"]
    first = content["columns"][0]
    columns = ([{"field_id": 1}], [first, first], [{**first, "field_id": 1 << 40}], [{**first, "min": 5}], ["k"])
    forged += [wrap_json("statistics", {**content, "columns": listed}) for listed in columns]
    for data in forged:
        storage.delete(path)
        if data is not None:
            storage.put_if_absent(path, data)
        opened = lake_on(storage, "x-").table("d.t")
        with pytest.raises(Corrupt, match=r"analyze\(\) makes new statistics") as refused:
            opened.system_table("statistics")
        assert refused.value.where == path
        (finding,) = opened.verify()
        assert finding.where == path
        assert opened.scan().count() == 5
        assert opened.repair_snapshots().newest_sound == 2, "a repair brings back rows, and all are there"
    table = lake_on(storage, "y-").table("d.t")
    write(table, range(8), "b")
    table.analyze()
    assert counts(table) == 8
    table.expire_snapshots(retain_max=1)
    assert table.verify() == [] == unreferenced(table)


def test_forged_names_lead_nowhere():
    table = made()
    write(table, range(2), "a")
    content = {**json.loads(table.analyze().encode()), "statistics": ["../../other", 5]}
    del content["format"], content["version"], content["checksum"]
    with pytest.raises(Corrupt, match="invalid 'statistics'"):
        Snapshot.of(content, "here")


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command(tmp_path):
    lake = connect(str(tmp_path))
    lake.create_database("d")
    table = lake.create_table("d.t", "k INT, v STRING", primary_key=["k"])
    assert call("analyze", "d.t", "-w", tmp_path) == "d.t: nothing was written yet\n"
    write(table, range(5), "ab")
    lines = call("analyze", "d.t", "-w", tmp_path).splitlines()
    assert lines[0].split() == ["column", "distinct", "nulls", "min", "max", "mean_length", "max_length"]
    assert [line.split() for line in lines[1:]] == [["k", "5", "0", "0", "4", "-", "-"], ["v", "1", "0", "ab", "ab", "2", "2"]]
    assert call("system", "d.t", "statistics", "-w", tmp_path).splitlines() == lines
    (row,) = json.loads(call("analyze", "d.t", "--columns", "v", "--json", "-w", tmp_path))
    assert (row["mergedRecordCount"], row["colstat"]["v"]["maxLen"], row["snapshot_id"]) == (5, 2, 2)
    assert json.loads(call("system", "d.t", "statistics", "--json", "-w", tmp_path)) == [row]
    assert "unknown columns" in complaint("analyze", "d.t", "--columns", "x", "-w", tmp_path)
