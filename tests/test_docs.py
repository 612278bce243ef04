"""The documents beside the code say what the code says: fields, columns, options and an example of FORMAT.md, and every module and
function that either document names."""

from __future__ import annotations

import datetime as dt
import importlib
import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from naive import NaiveTable
from strategies import lake_on

import lsmlake
from lsmlake.cli.docs import DOCUMENTS
from lsmlake.format import manifest, snapshot
from lsmlake.options.option import Change
from lsmlake.options.table_options import OPTIONS
from lsmlake.schema import schema
from lsmlake.schema.schema import Schema
from lsmlake.schema.shape import Kind
from lsmlake.store import consumers
from lsmlake.store.memory import MemoryStorage

ROOT = Path(__file__).parent.parent
TEXT = {name: path.read_text() for name, path in DOCUMENTS.items()}
FORMAT = TEXT["format"]


def table_of(section: str, number: int = 0) -> list[dict[str, str]]:
    """The rows of a table of FORMAT.md, `number` among the tables of its section, by the titles of its columns."""
    text = FORMAT.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"(?:^\|.*\n)+", text, re.M)[number].splitlines()
    titles, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in lines)
    return [dict(zip(titles, row, strict=True)) for row in rows]


SAMPLES: dict[str, object] = {
    "integer": 25,
    "time": 5,
    "text": "two words",
    "one of four words": "OVERWRITE",
    "name": "a-name",
    "boolean": True,
    "named": ["manifest-list-1", 5],
    "list of text": ["a b"],
    "list of fields": [{}],
    "list of stored values": [None, 5],
    "object of text": {"a": "b"},
    "object of integers": {"a": 5},
}


@pytest.mark.parametrize(
    ("section", "number", "declared"),
    [
        ("Schema", 0, schema._KINDS),
        ("Snapshot", 0, snapshot._KINDS),
        ("Changelogs and consumers", 1, consumers._KINDS),
        ("Manifests", 1, manifest._LIST_COLUMNS),
        ("Manifests", 2, manifest._INDEX_COLUMNS),
    ],
)
def test_fields_are_those_of_the_code(section: str, number: int, declared: Mapping[str, Kind]):
    documented = table_of(section, number)
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
    documented = {row["column"].strip("`"): row for row in table_of("Manifests")}
    fixed = {name: manifest._type_name(type_) for name, type_ in manifest._FIXED}
    assert {name: row["type"] for name, row in documented.items() if ":" not in name} == fixed
    assert {name for name in fixed if documented[name]["null"] == "yes"} == set(manifest._MAY_BE_NULL)
    ranges = {name: numbers(documented[name]["range"]) for name in fixed if documented[name]["range"]}
    assert ranges == manifest._RANGES
    columns = pa.schema([("d", pa.date32()), ("k", pa.int64()), ("v", pa.list_(pa.string()))])
    made = manifest.entries_schema(Schema.create(columns, ["d", "k"], ["d"], {}, None, 0, "u", "t"))
    kinds = {re.sub(r"\d+$", "<i>" if name[0] in "pk" else "<id>", name) for name in made.names if ":" in name}
    assert kinds == {name for name in documented if ":" in name}


def test_options_that_change_the_meaning_of_files():
    documented = {row["option"].strip("`"): row["can change"] for row in table_of("Altering")}
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
    listed, puffin = re.findall(r"^```\n(.*?)^```", FORMAT.partition("\n## Example\n")[2], re.M | re.S)
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



@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_path_in_a_document_exists(name: str):
    found = re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py|\.md)?|[a-z_]+\.py)`", TEXT[name])
    on_disk = {"manifest/", "index/", "schema/", "snapshot/"}
    missing = [path for path in found if path not in on_disk and not any((at / path).exists() for at in (ROOT, ROOT / "lsmlake"))]
    assert not missing


def test_every_function_in_a_document_exists():
    """`room/module.py`: `name`, `Class.method` or several names after one path, as in a walk."""
    text = TEXT["implementation"]
    found = re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.py)`((?:(?:: | and |, |, then )`[A-Za-z_.]+\(\)`)+)", text)
    assert len(found) > 60
    for path, names in found:
        module = importlib.import_module("lsmlake." + path.removesuffix(".py").replace("/", "."))
        for dotted in re.findall(r"`([A-Za-z_.]+)\(\)`", names):
            value: object = module
            for part in dotted.split("."):
                assert hasattr(value, part), f"{path}: {dotted}"
                value = getattr(value, part)


def test_no_function_is_named_without_its_module():
    """A call in backticks stands after its module, or is a method of a public class."""
    text = re.sub(r"`[a-z_]+(?:/[a-z_]+)+\.py`(?:(?:: | and |, |, then )`[A-Za-z_.]+\(\)`)+", "", TEXT["implementation"])
    for dotted in re.findall(r"`([A-Za-z_.]+)\(\)`", text):
        holder, _, method = dotted.rpartition(".")
        assert holder and hasattr(getattr(lsmlake, holder), method), dotted
