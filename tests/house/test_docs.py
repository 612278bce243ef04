"""The documents beside the code agree with it: fields, columns, options and the example of FORMAT.md, and the modules, functions,
values and limits that implementation.md names. The Python of the pages runs."""

from __future__ import annotations

import datetime as dt
import importlib
import re
import warnings
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from naive import NaiveTable
from strategies import lake_on, multiset
from test_tidy import LIBRARY, ROOMS, ROOT

import lsmlake
from lsmlake.cli.docs import DOCUMENTS
from lsmlake.format import branch, manifest, manifest_checks, manifest_list, packed, snapshot, statistics, tag, vector_index
from lsmlake.options.option import Change
from lsmlake.options.table_options import OPTIONS
from lsmlake.schema import schema
from lsmlake.schema.schema import Schema
from lsmlake.storage.env import Limits
from lsmlake.storage.memory import MemoryStorage
from lsmlake.tables import consumers
from lsmlake.types.json_shape import Kind

TEXT = {name: path.read_text() for name, path in DOCUMENTS.items()}


def section_tables(document: str, section: str) -> list[list[dict[str, str]]]:
    """The tables of a section: their rows by the titles of their columns."""
    text = TEXT[document].partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    tables = []
    for lines in re.findall(r"(?:^\|.*\n)+", text, re.M):
        titles, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in lines.splitlines())
        tables.append([dict(zip(titles, row, strict=True)) for row in rows])
    return tables


SAMPLES: dict[str, object] = {
    "integer": 25,
    "time": 5,
    "text": "two words",
    "one of four words": "OVERWRITE",
    "one of three words": "rename",
    "name": "a-name",
    "boolean": True,
    "named": ["manifest-list-1", 5],
    "list of text": ["a b"],
    "list of fields": [{}],
    "list of objects": [{}],
    "object": {},
    "list of stored values": [None, 5],
    "stored value": 5,
    "object of text": {"a": "b"},
    "object of integers": {"a": 5},
}


@pytest.mark.parametrize(
    ("section", "number", "declared"),
    [
        ("Schema", 0, schema._KINDS),
        ("Snapshot", 0, snapshot._KINDS),
        ("Changelogs and consumers", 1, consumers._KINDS),
        ("Tags", 0, tag._KINDS),
        ("Statistics", 0, statistics.KINDS),
        ("Statistics", 1, statistics.COLUMN_KINDS),
        ("Branches", 0, branch.KINDS),
        ("Branches", 1, branch.WORK_KINDS),
        ("Manifests", 1, manifest_list._LIST_COLUMNS),
        ("Manifests", 2, vector_index._INDEX_COLUMNS),
    ],
)
def test_fields_are_those_of_the_code(section: str, number: int, declared: Mapping[str, Kind]):
    documented = section_tables("format", section)[number]
    first = next(iter(documented[0]))
    assert [row[first].strip("`") for row in documented] == list(declared)
    for row in documented:
        kind, sample = declared[row[first].strip("`")], SAMPLES[row["type"]]
        given = (sample, None, {5: "of another type"})
        fits = [kind.fits([value] if section == "Manifests" else value) for value in given]
        assert fits == [True, row["null"] == "yes", False], row


def numbers(text: str) -> tuple[int, int]:
    """'0 to 2^31-1' as numbers."""
    least, most = (part.partition("^") for part in text.split(" to "))
    power, _, less = most[2].partition("-")
    return int(least[0]), int(most[0]) ** int(power or 1) - int(less or 0)


def test_columns_of_manifests_are_those_of_the_code():
    documented = {row["column"].strip("`"): row for row in section_tables("format", "Manifests")[0]}
    fixed = {name: packed.type_name(type_) for name, type_ in (*manifest.FIXED, *manifest.INDEX, manifest.SPEC)}
    assert {name: row["type"] for name, row in documented.items() if ":" not in name} == fixed
    assert {name for name in fixed if documented[name]["null"] == "yes"} == {*manifest_checks._MAY_BE_NULL, *dict(manifest.INDEX)}
    ranges = {name: numbers(documented[name]["range"]) for name in fixed if documented[name]["range"]}
    assert ranges == manifest_checks._RANGES
    columns = pa.schema([("d", pa.date32()), ("k", pa.int64()), ("v", pa.list_(pa.string()))])
    made = manifest.entries_schema(Schema.create(columns, ["d", "k"], ["d"], {}, None, 0, "u", "t"))
    kinds = {re.sub(r"\d+$", "<i>" if name[0] in "pk" else "<id>", name) for name in made.names if ":" in name}
    assert kinds == {name for name in documented if ":" in name}


def test_options_that_change_the_meaning_of_files():
    documented = {row["option"].strip("`"): row["can change"] for row in section_tables("format", "Altering")[0]}
    declared = {name: option for name, option in OPTIONS.items() if option.change is not Change.ANY_TIME}
    assert set(documented) == {*declared, "fields.*"}
    for name, option in declared.items():
        assert documented[name].partition(",")[0] == option.change.value
        assert ("," in documented[name]) == (option.matters is not None), f"{name}: the document states the exception"


def test_the_example_is_what_the_verbs_write():
    storage = MemoryStorage()
    lake = lake_on(storage)
    lake.create_database("sales")
    columns = "dt DATE, id BIGINT, v STRING"
    table = lake.create_table("sales.orders", columns, primary_key=["dt", "id"], partition_by=["dt"], options={"bucket": 1})
    for keys, values in (([1, 2, 3, 4, 5], "abcde"), ([2], "B")):
        table.upsert(pa.table({"dt": [dt.date(2026, 1, 1)] * len(keys), "id": keys, "v": list(values)}))
    listed, puffin = re.findall(r"^```\n(.*?)^```", TEXT["format"].partition("\n## Example\n")[2], re.M | re.S)
    paths = [line.split()[0] for line in listed.splitlines()]
    there = NaiveTable(storage, table.path)
    there_now = {path for path in there.referenced() if "manifest-list-000" not in path}  # snapshot 1 has lists of its own
    assert sorted(paths) == sorted({*there_now, f"{table.path}/snapshot/0000/snapshot-2"})
    latest = there.snapshots()[2]
    for name, field in (("base", "base_manifest_list"), ("delta", "delta_manifest_list"), ("index", "index_manifest")):
        assert f"{name} {latest[field][0]}" in listed
    for file in there.files(latest):
        level = rf"ADD {file.path.rpartition('/')[2]}, level {file.level}, {file.rows} rows?, .*: {file.sequence}$"
        assert re.search(level, listed, re.M)
    stored = there._bytes(f"{table.path}/index/dv-0008.puffin").hex()
    begin, _, end = "".join(re.split(r"  +", line)[0] for line in puffin.splitlines()).replace(" ", "").partition("...")
    assert stored.startswith(begin) and stored.endswith(end)


@pytest.mark.parametrize("vectors", [True, False])
@examples(10)
@given(st.data())
def test_a_reader_written_from_the_format_finds_the_rows(vectors: bool, data: st.DataObject):
    """`NaiveTable.rows`, over random writes and deletes, some of which wait at level 0."""
    storage = MemoryStorage()
    lake = lake_on(storage)
    lake.create_database("d")
    options = {"bucket": 2, "deletion-vectors.enabled": vectors}
    table = lake.create_table("d.t", "p STRING, k INT, v INT", primary_key=["p", "k"], partition_by=["p"], options=options)
    there = NaiveTable(storage, table.path)
    keys = st.tuples(st.sampled_from(["a", "", None]), st.integers(0, 9))
    for number in range(data.draw(st.integers(1, 6))):
        batch = [{"p": p, "k": k} for p, k in data.draw(st.lists(keys, min_size=1, unique=True))]
        write, compact = data.draw(st.tuples(st.sampled_from([table.upsert, table.delete_keys]), st.booleans()))
        write(batch if write == table.delete_keys else [{**row, "v": number} for row in batch], compact=compact)
        found = there.rows(there.snapshots()[number + 1], vectors=vectors)
        assert multiset(map(row_of, found)) == multiset(map(row_of, table.scan().to_arrow().to_pylist()))


def row_of(row: dict[str, object]) -> tuple:
    return row["p"], row["k"], row["v"]


PAGES = ["data", "duckdb", "iceberg", "indexes", "maintenance", "merging", "polars", "pyiceberg", "sql", "stores"]


@pytest.mark.parametrize("name", PAGES)
def test_the_programs_of_a_page_run_in_order(name, tmp_path, monkeypatch):
    lake = lsmlake.connect(tmp_path / "lake")
    lake.create_database("sales")
    columns = "order_id INT, status STRING, amount DOUBLE"
    orders = lake.create_table("sales.orders", columns, primary_key=["order_id"])
    orders.upsert([{"order_id": 1, "status": "open", "amount": 12.0}, {"order_id": 2, "status": "done", "amount": 3.0}])
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Polars recommends polars_iceberg
        exec("\n".join(re.findall(r"^```python\n(.*?)^```", TEXT[name], re.M | re.S)), {})


# -- names in the documents -------------------------------------------------------------------------------------------

CALLS = re.compile(r"`([a-z_]+(?:/[a-z_]+)+\.py)`:((?:(?:,| and| or)?\s`[A-Za-z_.]+\(\)`)+)")
"""A path and one or more calls of functions or methods in that module."""


def missing(path: str, dotted: str) -> bool:
    value: object = importlib.import_module("lsmlake." + path.removesuffix(".py").replace("/", "."))
    for part in dotted.split("."):
        if part not in getattr(value, "__dataclass_fields__", ()) and not hasattr(value, part):
            return True
        value = getattr(value, part, None)
    return False


@pytest.mark.parametrize("path", [*DOCUMENTS.values(), ROOT / "README.md"], ids=lambda path: path.name)
def test_every_path_in_a_document_exists(path: Path):
    found = re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py|\.md)?|[a-z_]+\.py)`", path.read_text())
    known = {"manifest/", "index/", "schema/", "snapshot/"}  # folders of a table
    assert not [path for path in found if path not in known and not (ROOT / path).exists() and not (LIBRARY / path).exists()]


@pytest.mark.parametrize("path", [*DOCUMENTS.values(), ROOT / "README.md"], ids=lambda path: path.name)
def test_every_link_in_a_document_leads_somewhere(path: Path):
    text = path.read_text()
    titles = re.findall(r"^##+ (.*)$", text, re.M)
    places = {f"#{re.sub('[^a-z0-9 -]', '', title.lower()).replace(' ', '-')}" for title in titles}
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", text) if not target.startswith("https://")]
    assert not [target for target in targets if target not in places and not (path.parent / target).is_file()]


def test_the_readme_leads_to_every_document():
    text = (ROOT / "README.md").read_text()
    assert not [path for path in DOCUMENTS.values() if f"(lsmlake/docs/{path.name})" not in text]


def test_every_function_in_a_document_exists():
    text = " ".join(TEXT["implementation"].split())
    found = [(path, call) for path, calls in CALLS.findall(text) for call in re.findall(r"([\w.]+)\(\)", calls)]
    assert len(found) > 100
    assert not [(path, call) for path, call in found if missing(path, call)]
    for dotted in re.findall(r"`([A-Za-z_.]+)\(\)`", CALLS.sub("", text)):
        assert dotted.startswith("Table."), f"{dotted}: a call stands after its module, unless it is a verb of Table"
        assert not missing("api/table.py", dotted)


def test_every_value_in_a_document_exists():
    rows = section_tables("implementation", "Values")[0]
    named = [(row["module"].strip("`"), name) for row in rows for name in re.findall(r"`(\w+)`", row["value"])]
    assert not [(path, name) for path, name in named if missing(path, name)]


def test_every_room_and_limit_is_in_the_implementation():
    rooms = " ".join(row["room"] for row in section_tables("implementation", "Rooms")[0])
    assert [name.strip("/").removesuffix(".py") for name in re.findall(r"`([\w/.]+)`", rooms)] == ROOMS
    limits = {row["limit"].strip("`"): row["used by"].strip("`") for row in section_tables("implementation", "Limits")[0]}
    assert set(limits) == {field.name for field in fields(Limits)}
    for name, path in limits.items():
        assert f"limits.{name}" in (LIBRARY / path).read_text()
