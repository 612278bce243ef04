"""Golden tables: tables of every older format version stay readable, and a newer version is refused with a clear error."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from golden.make import (
    answer,
    buckets_answer,
    build,
    build_buckets,
    build_partitioned,
    build_retained,
    partitions_answer,
    sequenced,
)

import lsmlake
from lsmlake.errors import UnsupportedFormat
from lsmlake.schema.envelope import unwrap_json, wrap_json

VERSIONS = sorted(path.parent for path in (Path(__file__).parents[1] / "golden").glob("v*/expected.json"))


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def golden(request, tmp_path: Path) -> tuple[Path, dict]:
    shutil.copytree(request.param / "warehouse", tmp_path / "warehouse")
    return tmp_path / "warehouse", json.loads((request.param / "expected.json").read_text())


def test_there_is_one():
    assert [path.name for path in VERSIONS] == ["v1"]


def test_every_snapshot_reads_as_it_was_written(golden):
    table = lsmlake.connect(golden[0]).table("golden.all")
    assert answer(table) == golden[1]
    assert table.verify() == []


def test_the_expected_answer_is_what_the_verbs_give_today(tmp_path: Path, golden):
    lake = lsmlake.connect(tmp_path / "today")
    build(lake)
    assert answer(lake.table("golden.all")) == golden[1]


def test_work_goes_on_from_it(golden):
    table = lsmlake.connect(golden[0]).table("golden.all")
    before = table.scan().count()
    table.compact(full=True)
    assert table.scan(mode="raw").count() == before
    assert table.upsert(table.scan().to_arrow(), writer_id="job", commit_id=7).id == 4, "a replay, recognised across releases"
    assert table.verify() == []


def test_partitions_by_transforms_stay_where_they_are(tmp_path: Path):
    golden = Path(__file__).parents[1] / "golden" / "transforms-v1"
    shutil.copytree(golden / "warehouse", tmp_path / "then")
    then, today = lsmlake.connect(tmp_path / "then").table("golden.parts"), lsmlake.connect(tmp_path / "today")
    expected = json.loads((golden / "expected.json").read_text())
    assert partitions_answer(then) == expected and then.verify() == []
    build_partitioned(today)
    assert partitions_answer(today.table("golden.parts")) == expected
    assert then.scan(where="local < '1970-01-01' AND code = ''").count() == 3


def test_buckets_of_several_totals_keep_their_keys(tmp_path: Path):
    golden = Path(__file__).parents[1] / "golden" / "buckets-v1"
    shutil.copytree(golden / "warehouse", tmp_path / "then")
    then, today = lsmlake.connect(tmp_path / "then").table("golden.buckets"), lsmlake.connect(tmp_path / "today")
    expected = json.loads((golden / "expected.json").read_text())
    assert buckets_answer(then) == expected and then.verify() == []
    build_buckets(today)
    assert buckets_answer(today.table("golden.buckets")) == expected
    assert [text for text in expected["buckets"] if text.startswith("1970-01-01")] == [
        "1970-01-01: 0 of 2",
        "1970-01-01: 1 of 4",
        "1970-01-01: 3 of 8",
    ], "the bucket 7 of 8 has no files"
    rows = {(row["day"], row["id"]): row for row in then.scan().to_pylist()}
    for (day, number), row in rows.items():
        assert then.get({"day": day, "id": number}) == row
    then.upsert(sequenced("+U", range(200), 99.5, "z"), row_kind="op")
    assert then.count() == 200 and then.verify() == []
    assert sum(text.startswith("1970-01-01") for text in buckets_answer(then)["buckets"]) == 4


def test_retained_deletes_stay_in_force(tmp_path: Path):
    golden = Path(__file__).parents[1] / "golden" / "retained-v1"
    shutil.copytree(golden / "warehouse", tmp_path / "then")
    then, today = lsmlake.connect(tmp_path / "then").table("golden.retained"), lsmlake.connect(tmp_path / "today")
    expected = json.loads((golden / "expected.json").read_text())
    build_retained(today)
    assert answer(then) == answer(today.table("golden.retained")) == expected
    assert any(state.retained for state in then.states().values()) and then.verify() == []
    before = then.scan().to_arrow().sort_by("id")
    for _ in range(2):
        then.upsert(sequenced("+U", range(12), 2.5, "z"), row_kind="op")
        assert then.scan().to_arrow().sort_by("id") == before
        then.compact(full=True)


@pytest.mark.parametrize("path", ["schema/schema-0", "snapshot/*/snapshot-*"])
def test_a_future_version_is_refused_by_name(golden, path):
    file = max((golden[0] / "golden.db" / "all").glob(path), key=lambda one: int(one.name.rpartition("-")[2]))
    kind = "schema" if "schema" in path else "snapshot"
    content = unwrap_json(kind, file.read_bytes(), str(file))
    newest = 4 if kind == "schema" else 1
    text = wrap_json(kind, content).decode().replace('"version": 1', f'"version": {newest + 1}')
    file.write_text(text)
    with pytest.raises(UnsupportedFormat, match=rf"newer format version.*version {newest}.*version {newest + 1}.*upgrade"):
        lsmlake.connect(golden[0]).table("golden.all").scan().to_arrow()


@pytest.mark.parametrize("kind", ["manifest-0*", "manifest-list-*", "index-manifest-*"])
def test_a_future_manifest_is_refused_by_name(golden, kind):
    for file in (golden[0] / "golden.db" / "all" / "manifest").glob(kind):
        data = bytearray(file.read_bytes())
        data[9] = 2
        file.write_bytes(data)
    with pytest.raises(UnsupportedFormat, match=r"version 1 or older.*version 2"):
        lsmlake.connect(golden[0]).table("golden.all").scan().to_arrow()
