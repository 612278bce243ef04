"""Golden tables that Iceberg's own Java code wrote (golden/iceberg/make.py): lsmlake decodes their vectors, manifests and lists
of manifests, and writes the same of the same rows; the reader of the tests, written from the specification, finds their rows."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from iceberg_reader import IcebergReader

from lsmlake.format import puffin
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.iceberg import avro
from lsmlake.types.type_table import number_of

GOLDEN = Path(__file__).parents[1] / "golden" / "iceberg"
MADE_AT = "/tmp/lsmlake-iceberg-golden/golden/"
UTC = dt.timezone.utc
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        pa.field("b", pa.bool_()),
        pa.field("i", pa.int32()),
        pa.field("f", pa.float32()),
        pa.field("x", pa.float64()),
        pa.field("small", pa.decimal128(5, 2)),
        pa.field("dec", pa.decimal128(38, 4)),
        pa.field("s", pa.string()),
        pa.field("bin", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("y", pa.timestamp("us")),
        pa.field("m", pa.timestamp("us", "UTC")),
        pa.field("h", pa.timestamp("us")),
        pa.field("d", pa.timestamp("us", "UTC")),
        pa.field("code", pa.string()),
        pa.field("st", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
        pa.field("mp", pa.map_(pa.string(), pa.int64())),
    ]
)
PARTITIONS = ["b", "i", "small", "dec", "s", "bin", "day", "at", "local", "years(y)", "months(m)", "hours(h)", "days(d)"]
PARTITIONS += ["truncate(2, code)", "bucket(16, id)"]
FULL = {
    "id": 1,
    "b": True,
    "i": 7,
    "f": 1.5,
    "x": -2.5,
    "small": Decimal("-1.28"),
    "dec": Decimal("-123456789012345678901234567890.1234"),
    "s": "ä€𝄞",
    "bin": b"\0\xff",
    "day": dt.date(1969, 12, 31),
    "at": dt.datetime(1969, 12, 31, 23, 59, 59, 1, UTC),
    "local": dt.datetime(2026, 1, 2, 3, 4, 5, 6),
    "y": dt.datetime(1968, 6, 1),
    "m": dt.datetime(2026, 11, 30, tzinfo=UTC),
    "h": dt.datetime(1970, 1, 1, 5),
    "d": dt.datetime(1969, 12, 31, 1, tzinfo=UTC),
    "code": "codes",
    "st": {"x": 1, "y": ["a", None]},
    "mp": [("k", 1)],
}
COLUMN_SIZES = 108
"""Field `column_sizes` of a manifest entry, optional; manifests of lsmlake do not know it."""


def content(uri: str) -> bytes:
    return (GOLDEN / uri.removeprefix(MADE_AT)).read_bytes()


def metadata(table: str) -> dict:
    (file,) = (GOLDEN / table / "metadata").glob("*.metadata.json")
    return json.loads(file.read_text())


def java(table: str) -> IcebergReader:
    return IcebergReader(metadata(table), content)


@pytest.fixture
def ours(lake) -> IcebergReader:
    """The table `types` as lsmlake writes it, with the same rows."""
    table = lake.create_table("d.types", COLUMNS, partition_by=PARTITIONS)
    table.append(pa.Table.from_pylist([FULL, {"id": 2}], COLUMNS))
    file = Path(table.publish_iceberg().removeprefix("file://"))
    return IcebergReader(json.loads(file.read_text()), lambda uri: Path(uri.removeprefix("file://")).read_bytes())


def decoded(uri: str, read) -> tuple[list[dict], dict, dict]:
    """The records of an Avro file, its schema, and the other entries of its header."""
    records, header = avro.read(read(uri), uri)
    return records, json.loads(header["avro.schema"]), {name: text for name, text in header.items() if name != "avro.schema"}


def files_of(found: IcebergReader, content: int = 0) -> list[dict]:
    """The live files of the data or delete manifests of the newest snapshot."""
    lists, _, _ = decoded(found.snapshots[found.metadata["current-snapshot-id"]]["manifest-list"], found.read)
    return [
        entry["data_file"]
        for manifest in lists
        if manifest["content"] == content
        for entry in decoded(manifest["manifest_path"], found.read)[0]
        if entry["status"] != avro.DELETED
    ]


# --- Java's files decode ---


def expected_positions() -> np.ndarray:
    some = np.arange(65_536, 131_072)
    squares = some[some * some % 7 == 1]
    return np.concatenate([np.arange(30_000), squares, [131_072, 131_080, 139_999]])


def test_a_vector_with_containers_of_every_form_is_decoded_and_encoded_to_the_same_bytes():
    (file,) = files_of(java("vectors"), content=1)
    data = content(file["file_path"])
    (vector,) = puffin.decode(data, "golden").values()
    assert np.array_equal(vector.positions(), expected_positions())
    start = file["content_offset"]
    blob = data[start : start + file["content_size_in_bytes"]]
    assert DeletionVector.decode(blob, "golden", 140_000) == vector
    assert DeletionVector.of(expected_positions()).encode() == blob
    assert len(vector) == file["record_count"]


def test_vectors_of_two_files_in_one_puffin_file():
    found = {}
    for path in sorted((GOLDEN / "rows" / "data").glob("*.puffin")):
        for uri, vector in puffin.decode(path.read_bytes(), path.name).items():
            assert uri.startswith(MADE_AT)
            found.setdefault(Path(uri).parent.name, []).append(vector.positions().tolist())
    assert {name: sorted(positions) for name, positions in found.items()} == {"p=a": [[0], [0, 1]], "p=null": [[1]]}


def test_the_rows_of_every_snapshot():
    found = java("rows")
    refs = {name: ref["snapshot-id"] for name, ref in found.metadata["refs"].items()}

    def rows(of: str, *columns: str) -> list[tuple]:
        return sorted(tuple(row[name] for name in columns) for row in found.rows(refs[of]))

    assert rows("first", "id", "gone", "n") == [(n, "g", n) for n in (1, 2, 3, 4, 5)]
    assert rows("side", "id", "n") == [(2, 2), (3, 3), (5, 5)]
    assert rows("main", "id", "number", "later") == [(2, 2, "x"), (3, 6_000_000_000, "x"), (5, 5, "x")]
    assert {row["id"]: row["p"] for row in found.rows()} == {2: None, 3: "a", 5: "a"}


# --- ours are like Java's ---


def shape(type_: object) -> object:
    """A type of Avro without its documentation, and without the names of fixed types, which only tell two of a file apart."""
    if isinstance(type_, list):
        return [shape(one) for one in type_]
    if not isinstance(type_, dict):
        return type_
    ignored = {"doc", "name"} if type_["type"] == "fixed" else {"doc"}
    return {
        name: [shape(field) for field in value if field["field-id"] != COLUMN_SIZES] if name == "fields" else shape(value)
        for name, value in type_.items()
        if name not in ignored
    }


def test_manifests_and_manifest_lists_have_the_schemas_and_headers_of_java(ours):
    made = {}
    for name, found in (("java", java("types")), ("ours", ours)):
        snapshot = found.snapshots[found.metadata["current-snapshot-id"]]
        records, list_schema, list_header = decoded(snapshot["manifest-list"], found.read)
        _, schema, header = decoded(records[0]["manifest_path"], found.read)
        made[name] = list_schema, schema, list_header, header
    for theirs, our in zip(made["java"][:2], made["ours"][:2], strict=True):
        assert shape(our) == shape(theirs)
    for theirs, our in zip(made["java"][2:], made["ours"][2:], strict=True):
        assert set(theirs) - {"iceberg.schema"} <= set(our)  # the schema of the file as Iceberg's JSON: not specified
    for name in ("format-version", "content", "partition-spec-id", "avro.codec"):
        assert made["ours"][3][name] == made["java"][3][name]
    specs = [json.loads(made[name][3]["partition-spec"]) for name in ("java", "ours")]
    assert specs[0] == specs[1]


def test_partition_values_counts_and_bounds_are_those_of_java(ours):
    ids = range(1, 18)  # not of columns in structs, lists and maps: manifests of lsmlake have no bounds of those
    theirs, our = (sorted(files_of(found), key=lambda file: file["lower_bounds"][0]["value"]) for found in (java("types"), ours))
    assert [file["record_count"] for file in our] == [1, 1]
    for a, b in zip(theirs, our, strict=True):
        numbers = [{name: number_of(value) for name, value in file["partition"].items()} for file in (a, b)]
        assert numbers[0] == numbers[1]
        for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
            pairs = [{pair["key"]: pair["value"] for pair in file[name] if pair["key"] in ids} for file in (a, b)]
            assert pairs[0] == pairs[1], name


def test_summaries_of_partitions_are_those_of_java(ours):
    theirs, our = (
        decoded(found.snapshots[found.metadata["current-snapshot-id"]]["manifest-list"], found.read)[0][0]
        for found in (java("types"), ours)
    )
    assert our["partitions"] == theirs["partitions"]
    same = ("content", "sequence_number", "min_sequence_number", "added_files_count", "added_rows_count", "existing_files_count")
    assert [our[name] for name in (*same, "first_row_id")] == [theirs[name] for name in (*same, "first_row_id")]


def test_metadata_files_have_the_fields_of_java(ours):
    theirs, our = metadata("types"), ours.metadata
    assert set(theirs) <= set(our)
    for name in ("partition-specs", "default-spec-id", "last-partition-id", "last-column-id", "sort-orders", "next-row-id"):
        assert our[name] == theirs[name], name
    plain = slice(0, 17)  # Iceberg gives fields in structs, lists and maps their ids after all columns, lsmlake in their place
    assert our["schemas"][0]["fields"][plain] == theirs["schemas"][0]["fields"][plain]
    assert set(theirs["snapshots"][0]) == set(our["snapshots"][0])
    totals = ("operation", "added-data-files", "added-records", "total-records", "total-data-files", "total-delete-files")
    assert [our["snapshots"][0]["summary"][name] for name in totals] == [
        theirs["snapshots"][0]["summary"][name] for name in totals
    ]
