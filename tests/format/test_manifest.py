"""Manifests: what is written is read, and folding entries against a dictionary."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from strategies import KEYS, KINDS, PARTITIONS, Shape, new_lake, rank

from lsmlake.errors import Corrupt
from lsmlake.format import deletion_vector, manifest, manifest_codec
from lsmlake.format.data_files import APPEND, COMPACT, Bucket, ColumnStats, DataFile, VectorRef
from lsmlake.format.deletion_vector import IndexManifest, IndexPart, VectorChanges, VectorIndex
from lsmlake.format.manifest import ADD, DELETE, ManifestEntry
from lsmlake.schema import envelope
from lsmlake.schema.schema import Schema
from lsmlake.tables import live as live_set

QUICK = examples(60)


def schema_of(key: str, partition: str) -> tuple[Shape, Schema]:
    shape = Shape.of(key, partition)
    return shape, shape.create(new_lake(), bucket=4).version.schema


def bounds(one: object, other: object) -> tuple[object, object]:
    """The smaller value first. None is no bound."""
    return (one, other) if one is None or other is None or rank(one) <= rank(other) else (other, one)


@st.composite
def entries(draw, shape: Shape, schema: Schema, names: int = 6) -> list[ManifestEntry]:
    """Entries about a few files, in any order, kinds and levels at will."""
    made = []
    for name, code, other, more in draw(st.lists(st.tuples(*[st.integers(0, 255)] * 4), max_size=12)):
        low, high = (shape.stored(shape.row(c, c, 0)) for c in (code, other))
        keys = sorted((row[: len(shape.key)] for row in (low, high)), key=lambda key: tuple(map(rank, key)))
        stats = {
            number: ColumnStats(more, *bounds(low[i], high[i]))
            for i, (column, number) in enumerate(schema.field_ids().items())
            if manifest.has_order(schema.columns.field(column).type)
            and more % (i + 2)
            and low[i] == low[i]
            and high[i] == high[i]
        }
        stats[schema.field_ids()["tags"]] = ColumnStats(min(3, more), None, None)
        sequence = more if more % 2 else None
        level, source = more % 7, (APPEND, COMPACT)[more % 2]
        file = DataFile(
            f"data-{name % names}",
            f"bucket-{other % 4}",
            2**44 + more,
            1 + more,
            more,
            *keys,
            level,
            0,
            source,
            2**50 + more,
            sequence,
            sequence,
            stats,
        )
        partition = (high[shape.names.index("p")],) if shape.partition else ()
        made.append(ManifestEntry((ADD, DELETE)[code % 2], Bucket(partition, other % 4), 4, file))
    return made


def values_of(table: pa.Table, schema: Schema) -> list[ManifestEntry]:
    kinds = table["kind"].to_pylist()
    found = manifest.files_of(table, schema)
    return [ManifestEntry(kind, bucket, total, file) for kind, (bucket, total, file) in zip(kinds, found, strict=True)]


@QUICK
@given(st.sampled_from(list(KEYS)), st.sampled_from(list(PARTITIONS)), st.data())
def test_what_is_written_is_read(key, partition, data):
    shape, schema = schema_of(key, partition)
    given_entries = data.draw(entries(shape, schema))
    table = manifest.to_table(given_entries, schema)
    stored = manifest_codec.decode(manifest_codec.encode(table), "manifest-1")
    again = manifest_codec.under(stored, schema, "manifest-1")
    assert again.equals(table)
    assert stored.equals(table.select(stored.column_names)), "only statistics of columns that have none are left out"
    assert values_of(again, schema) == given_entries


@pytest.mark.parametrize("ddl", [kind.ddl for kind in KINDS.values()])
def test_every_value_of_a_type_survives_as_a_bound(ddl):
    values = next(kind.values for kind in KINDS.values() if kind.ddl == ddl)
    table = new_lake().create_table("d.t", f"k {ddl}, v {ddl}", primary_key=["k"])
    files = [
        DataFile(
            f"data-{i}",
            "bucket-0",
            1,
            1,
            0,
            (value,),
            (value,),
            1,
            0,
            APPEND,
            0,
            1,
            1,
            {1: ColumnStats(0, value, None), 2: ColumnStats(1, None, value)},
        )
        for i, value in enumerate(values)
    ]
    made = manifest.to_table([ManifestEntry(ADD, Bucket((), 0), 1, file) for file in files], table.version.schema)
    assert [
        entry.file for entry in values_of(manifest_codec.decode(manifest_codec.encode(made), ""), table.version.schema)
    ] == files


def naive_fold(entries: list[ManifestEntry]) -> dict[str, ManifestEntry]:
    last = {entry.file.name: entry for entry in entries}
    return {name: entry for name, entry in last.items() if entry.kind == ADD}


def by_name(table: pa.Table, schema: Schema) -> dict[str, ManifestEntry]:
    found = values_of(table, schema)
    assert max(Counter(entry.file.name for entry in found).values(), default=1) == 1
    return {entry.file.name: entry for entry in found}


@QUICK
@given(st.data(), st.integers(1, 5))
def test_the_live_set_is_the_fold_of_the_entries(data, parts):
    shape, schema = schema_of("bigint", "string")
    tables = [data.draw(entries(shape, schema)) for _ in range(parts)]
    folded = live_set.fold([manifest.to_table(part, schema) for part in tables], schema)
    assert by_name(folded, schema) == naive_fold([entry for part in tables for entry in part])


@QUICK
@given(st.data(), st.integers(0, 3), st.integers(1, 4), st.integers(0, 2))
def test_merging_manifests_changes_no_fold(data, before, merged, after):
    """Any stretch of manifests may be made one, whatever stands before and after it, as long as the history is possible: a file
    is removed only while it lives."""
    shape, schema = schema_of("bigint", "none")
    live, parts = set(), []
    for _ in range(before + merged + after):
        part = []
        for entry in data.draw(entries(shape, schema, names=4)):
            name = entry.file.name
            kind = DELETE if name in live else ADD
            live ^= {name}
            part.append(entry._replace(kind=kind))
        parts.append(manifest.to_table(part, schema))
    one = live_set.merge(parts[before : before + merged], schema)
    assert by_name(live_set.fold([*parts[:before], one, *parts[before + merged :]], schema), schema) == by_name(
        live_set.fold(parts, schema), schema
    )
    assert one.num_rows <= sum(part.num_rows for part in parts[before : before + merged])
    if before == 0:
        assert DELETE not in one["kind"].to_pylist(), "what came and went inside is forgotten"


def test_a_file_inherits_the_sequence_of_its_commit_once():
    _, schema = schema_of("bigint", "none")
    files = [
        DataFile(name, "bucket-0", 1, 1, 0, (1,), (2,), 0, 0, APPEND, 0, sequence, sequence)
        for name, sequence in (("a", None), ("b", 4))
    ]
    table = manifest.to_table([ManifestEntry(ADD, Bucket((), 0), 4, file) for file in files], schema)
    inherited = live_set.inherit(table, 9)
    assert inherited["sequence"].to_pylist() == inherited["min_sequence"].to_pylist() == [9, 4]
    assert live_set.inherit(inherited, 12).equals(inherited)


def test_states_group_the_live_set_by_partition_and_bucket():
    _, schema = schema_of("bigint", "string")
    buckets = [Bucket((None,), 0), Bucket(("a",), 0), Bucket(("a",), 1), Bucket(("",), 0)]
    files = [DataFile(f"f{i}", "bucket-0", 1, 9, 0, (i,), (i,), 1, 0, APPEND, 0, 1, 1) for i in range(8)]
    table = manifest.to_table([ManifestEntry(ADD, buckets[i % 4], 4, file) for i, file in enumerate(files)], schema)
    refs = {"f1": VectorRef("dv-1", 4, 50, 2), "elsewhere": VectorRef("dv-2", 4, 50, 1)}
    states = manifest.states(table, refs, schema)
    assert set(states) == set(buckets)
    assert [file.name for file in states[buckets[1]].files] == ["f1", "f5"]
    assert states[buckets[1]].vectors == {"f1": refs["f1"]}
    assert states[buckets[0]].vectors == {}


@QUICK
@given(st.data(), st.sampled_from(list(PARTITIONS)))
def test_a_list_describes_its_manifests_and_is_read_back(data, partition):
    shape, schema = schema_of("int", partition)
    made = [part for part in data.draw(st.lists(entries(shape, schema), max_size=4)) if part]
    metas = []
    for number, part in enumerate(made):
        table = manifest.to_table(part, schema)
        meta = manifest.describe(f"manifest-{number}", b"x" * (number + 1), table, schema, number)
        assert (meta.added, meta.deleted) == (sum(e.kind == ADD for e in part), sum(e.kind == DELETE for e in part))
        assert (meta.bucket_min, meta.bucket_max) == (min(e.bucket.number for e in part), max(e.bucket.number for e in part))
        assert (meta.level_min, meta.level_max) == (min(e.file.level for e in part), max(e.file.level for e in part))
        metas.append(meta)
    assert list(manifest.decode_list(manifest.encode_list(metas), "list")) == metas


FILES = st.from_regex(r"[a-z][a-z0-9.-]{0,5}", fullmatch=True)


@QUICK
@given(
    st.dictionaries(FILES, st.none() | st.tuples(FILES, *[st.integers(20, 2**31 - 1)] * 3), max_size=5),
    st.lists(st.tuples(FILES, st.integers(1, 99), st.integers(0, 99)), max_size=3),
    st.none() | FILES,
)
def test_an_index_is_read_back(vectors, parts, follows):
    changes = VectorChanges((name, ref and VectorRef(*ref)) for name, ref in vectors.items())
    index = IndexManifest(tuple(IndexPart(*part) for part in parts), follows, changes)
    assert deletion_vector.decode_index(deletion_vector.encode_index(index), "index") == index


@QUICK
@given(st.lists(st.dictionaries(FILES, st.none() | st.tuples(FILES, *[st.integers(20, 99)] * 3), max_size=5), max_size=5))
def test_an_index_is_the_fold_of_its_changes(parts):
    layers = [VectorChanges((name, ref and VectorRef(*ref)) for name, ref in part.items()) for part in parts]
    folded = {}
    for layer in layers:
        folded |= layer
    live = {name: ref for name, ref in folded.items() if ref is not None}
    index = VectorIndex(layers)
    assert (dict(index), len(index)) == (live, len(live))
    assert [index.get(name) for name in folded] == list(folded.values())
    used = {ref.puffin for ref in live.values()}
    assert index.puffins_in_use({"nobody", *(ref.puffin for layer in layers for ref in layer.values() if ref)}) == used


INDEX = {"kind": "deletion-vector-v1", "follows": None, "parts": [], "file": []}


@pytest.mark.parametrize(
    ("decode", "kind", "content"),
    [
        (manifest_codec.decode, "MANF", {"rows": 2, "columns": [{"name": "kind", "type": "TINYINT", "values": [0]}]}),
        (manifest_codec.decode, "MANF", {"rows": 1, "columns": [{"name": "kind", "type": "NO SUCH TYPE", "values": [0]}]}),
        (manifest_codec.decode, "MANF", {"rows": 1, "columns": [{"name": "kind", "type": "TINYINT", "values": ["x"]}]}),
        (manifest_codec.decode, "MANF", {"rows": 1}),
        (manifest.decode_list, "MLST", {"name": ["manifest-1"]}),
        (deletion_vector.decode_index, "INDX", INDEX | {"file": ["a"], "puffin": ["p"]}),
        (
            deletion_vector.decode_index,
            "INDX",
            INDEX | {"file": ["a"], "puffin": ["p"], "offset": [3], "length": [20], "cardinality": [1]},
        ),
        (deletion_vector.decode_index, "INDX", INDEX | {"parts": [["index-manifest-1", 5]]}),
        (deletion_vector.decode_index, "INDX", {"kind": "deletion-vector-v1"}),
    ],
)
def test_content_that_is_whole_but_not_right_is_refused_by_name(decode, kind, content):
    data = envelope.pack(kind, content)
    with pytest.raises(Corrupt, match="somewhere/manifest-7"):
        decode(data, "somewhere/manifest-7")


def test_content_that_does_not_unpack_is_refused_by_name():
    for payload in (b"", b"\0" * 8, (10).to_bytes(8, "big") + b"not zstd"):
        with pytest.raises(Corrupt, match="somewhere/manifest-7"):
            manifest_codec.decode(envelope.wrap("MANF", payload), "somewhere/manifest-7")


def with_value(table: pa.Table, column: str, value: object) -> pa.Table:
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.schema.field(at), pa.array([value], table.schema.field(at).type))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("kmin:0", 10),
        ("kmin:1", "b"),  # the first columns of both keys are equal
        ("kmax:1", ""),
        ("n:1", -5),
        ("n:2", 11),
        ("lo:1", 10),
        ("hi:1", 8),
        ("hi:3", 0.5),
        ("lo:3", float("nan")),
        ("rows", 0),
        ("delete_rows", 11),
        ("bytes", 0),
        ("min_sequence", 7),
        ("footer_bytes", 101),
        ("bucket", 4),
        ("source", "SOMEBODY"),
        ("name", "data-1.parquet\n"),
        *(("directory", text) for text in ("", "/etc", "..", "a/../b", "a\\..\\b", "a\n", "a\0", "a\x7f")),
    ],
)
def test_an_entry_that_contradicts_itself_is_refused_by_name(column, value):
    columns = pa.schema([pa.field("k", pa.int32(), False), pa.field("t", pa.string(), False), pa.field("v", pa.float64())])
    schema = Schema.create(columns, ["k", "t"], [], {}, None, 0, "u", "t")
    stats = {1: ColumnStats(0, 9, 9), 2: ColumnStats(0, "a", "aa"), 3: ColumnStats(0, 1.0, 9.0)}
    file = DataFile("data-1.parquet", "p=%2F/bucket-0", 100, 10, 0, (9, "a"), (9, "aa"), 0, 0, APPEND, 0, 1, 1, stats, 1, 20, 1)
    good = manifest.to_table([ManifestEntry(ADD, Bucket((), 0), 4, file)], schema)

    def read(table: pa.Table) -> None:
        manifest_codec.under(manifest_codec.decode(manifest_codec.encode(table), "manifest-7"), schema, "manifest-7")

    def read_after_good_ones(table: pa.Table) -> None:
        named = {"manifest-5": good, "manifest-6": good, "manifest-7": table}
        contents = [manifest_codec.content(manifest_codec.encode(table), name) for name, table in named.items()]
        assert [table.equals(good) for table in manifest_codec.decode_under(contents, schema)] == [True] * 3

    for reading in (read, read_after_good_ones):
        reading(good)
        with pytest.raises(Corrupt, match=f"manifest-7: manifest has an invalid '({column}|kmin:0|lo:{column[-1]})'"):
            reading(with_value(good, column, value))
