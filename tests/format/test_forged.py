"""Forged files: for any value in a field of a metadata file or deletion vector, with a valid checksum, every verb gives an answer
or a LakeError.

`LSMLAKE_EXAMPLES=20 pytest tests/format/test_forged.py` forges twenty times as many.
"""

from __future__ import annotations

import copy
import os
import random
import subprocess
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from unittest.mock import patch

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import scaled
from strategies import contents, copied, lake_on, new_lake
from test_damage import QUESTIONS, with_file, world

from lsmlake.api.table import Table
from lsmlake.errors import Corrupt, InternalError, LakeError
from lsmlake.files.checksum import footer_in
from lsmlake.files.data_reader import DataReader
from lsmlake.format import manifest_codec, puffin
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.schema.envelope import unpack, unwrap, unwrap_json, wrap, wrap_json
from lsmlake.schema.schema import ROW_KIND
from lsmlake.storage.env import Env
from lsmlake.storage.memory import MemoryStorage
from lsmlake.tables.table_files import TableFiles

FORGERIES = scaled(4)
KINDS = {"schema/": "schema", "snapshot/": "snapshot", "manifest/manifest-0": "MANF"}
KINDS |= {"manifest/manifest-list": "MLST", "manifest/index-manifest": "INDX"}
VALUES = (
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**62,
    2**63 - 1,
    -(2**63),
    1.5,
    float("nan"),
    "",
    "x",
    "../../x",
    "/",
    "a\0b",
    [],
    {},
    [[[]]],
)
VALUES += ([None], {"type": "struct"}, "DECIMAL(99,1)", "x" * 100_000)


def opened(kind: str, data: bytes, path: str) -> object:
    return unwrap_json(kind, data, path) if kind.islower() else unpack(kind, data, path)


def closed(kind: str, content: object) -> bytes:
    if kind.islower():
        return wrap_json(kind, content)
    raw = msgpack.packb(content)
    return wrap(kind, len(raw).to_bytes(8, "big") + pa.Codec("zstd").compress(raw, asbytes=True))


def forged(content: object, chance: random.Random) -> object:
    """A copy in which one value somewhere is another, is missing, is there twice, or is new."""
    made = copy.deepcopy(content)
    holder, key = {"": made}, ""
    while isinstance(inside := holder[key], (dict, list)) and inside and chance.random() < 0.8:
        holder, key = inside, chance.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
    what = chance.randrange(8)
    if what == 0 and holder is not made:
        del holder[key]
    elif what == 1 and isinstance(holder, dict):
        holder["forged"] = chance.choice(VALUES)
    elif what == 2 and isinstance(holder, list):
        holder.append(holder[key])
    else:
        holder[key] = chance.choice(VALUES)
    return made


def verbs(table: Callable[[], Table]) -> list[Callable[[], object]]:
    asked = [lambda q=question: table().scan(**q).to_arrow() for question in QUESTIONS]
    return [
        *asked,
        lambda: table().verify(),
        lambda: table().changes(1, 4).to_arrow(),
        lambda: [table().files(), table().snapshots(), table().manifests(), table().schemas(), table().partitions()],
        lambda: table().compact(full=True),
        lambda: table().delete_keys({"k0": [1]}),
        lambda: table().expire_snapshots(retain_max=1),
    ]


def survives(storage: MemoryStorage, emitted: object) -> None:
    """Every verb gives an answer, or an error of lsmlake that it foresaw."""
    for verb in verbs(lambda: lake_on(copied(storage), "again-").table("d.t")):
        try:
            verb()
        except LakeError as error:
            assert not isinstance(error, InternalError), (emitted, error)


@pytest.mark.parametrize("where", KINDS)
def test_no_verb_stumbles_over_forged_metadata(where):
    chance, kind = random.Random(where), KINDS[where]
    files = [(path, data) for path, data in contents(world()).items() if f"/{where}" in path and not path.endswith("LATEST")]
    read = TableFiles.read
    with patch.object(TableFiles, "read", lambda files, path, length: read(files, path, None)):  # as if names were forged, too
        for _ in range(FORGERIES):
            path, data = chance.choice(files)
            content = forged(opened(kind, data, path), chance)
            survives(with_file(path, closed(kind, content)), (path, str(content)[:5000]))


def vectors_of_world() -> list[tuple[str, puffin.Blob]]:
    files = [(path, data) for path, data in contents(world()).items() if "/index/" in path]
    return [(path, blob) for path, data in files for blob in puffin.decode_footer(data, path).values()]


def with_vector(path: str, blob: puffin.Blob, body: bytes) -> MemoryStorage:
    """The world with another body, of the same length, in the place of a vector's, under a right checksum."""
    framed = len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    assert len(framed) == blob.length
    data = contents(world())[path]
    return with_file(path, data[: blob.offset] + framed + data[blob.offset + blob.length :])


def test_no_verb_stumbles_over_a_forged_vector():
    chance, vectors = random.Random("vector"), vectors_of_world()
    for _ in range(FORGERIES):
        path, blob = chance.choice(vectors)
        body = bytearray(contents(world())[path][blob.offset + 4 : blob.offset + blob.length - 4])
        for _ in range(chance.randrange(1, 3)):
            body[chance.randrange(len(body))] = chance.choice([0, 1, 2, 255, chance.randrange(256)])
        survives(with_vector(path, blob, bytes(body)), (path, body.hex()))


def test_a_vector_past_the_end_of_its_file_is_refused_wherever_it_is_read():
    path, blob = vectors_of_world()[-1]
    body = DeletionVector.of(np.arange(60_000, 60_000 + blob.cardinality)).encode()[4:-4]
    storage = with_vector(path, blob, body)
    table = lake_on(storage, "again-").table("d.t")
    for verb in (table.scan().to_arrow, table.scan(mode="raw").to_arrow, table.scan().count, lambda: table.compact(full=True)):
        with pytest.raises(Corrupt, match=r"past the end of its file.*positions below"):
            verb()
    assert any("past the end of its file" in finding.what for finding in table.verify())


def test_content_that_claims_or_has_a_great_size_is_not_unpacked():
    raw = bytes(1 << 26)
    bomb = pa.Codec("zstd").compress(raw, asbytes=True)
    for size in (len(raw), 1 << 50, (1 << 64) - 1):
        with pytest.raises(Corrupt, match="content is too large"):
            manifest_codec.decode(wrap("MANF", size.to_bytes(8, "big") + bomb), "m")
    assert unwrap("MANF", wrap("MANF", b"x"), "m") == b"x"


@pytest.mark.parametrize("depth", [500, 100_000])
def test_json_nested_without_end_is_refused(depth):
    path = next(path for path in contents(world()) if path.endswith("schema-0"))
    data = b'{"format": "lsmlake-schema", "version": 1, "x": ' + b"[" * depth + b"]" * depth + b"}"
    with pytest.raises(Corrupt, match="schema-0"):
        lake_on(with_file(path, data)).table("d.t")


def forged_footers(first: int, last: int) -> None:
    """Reads a data file of the world with a forged Parquet footer for each number, printed first. Runs in its own process."""
    storage, table = world(), lake_on(world(), "again-").table("d.t")
    schema = table.version.schema
    places = [(table.meta.paths.data(file), file) for state in table.states().values() for file in state.files]
    for number in range(first, last):
        print(number, flush=True)
        chance = random.Random(f"footer {number}")
        path, file = chance.choice(places)
        data = contents(storage)[path]
        footer = bytearray(footer_in(data))
        for _ in range(chance.randrange(1, 3)):
            footer[chance.randrange(len(footer) - 8)] = chance.choice([0, 127, 128, 255, chance.randrange(256)])
        forged_storage = with_file(path, data[: -len(footer)] + bytes(footer))
        entry = file._replace(footer_checksum=zlib.crc32(footer))
        with suppress(LakeError), DataReader(Env(forged_storage), path, entry, schema, encoded=schema.columns.names) as reader:
            for name in schema.columns.names:
                reader.group_bounds(name)
            assert sum(chunk.table.num_rows for chunk in reader.stream(schema.columns.names)) == file.rows


def test_a_forged_footer_is_an_error_and_ends_no_process():
    """But for the one way that FORMAT.md names: pyarrow does not catch what Parquet throws at an impossible column chunk."""
    uncaught = "terminate called after throwing an instance of 'parquet::ParquetException'"
    done, last = 0, 25 * FORGERIES
    while done < last:
        program = f"import test_forged; test_forged.forged_footers({done}, {last})"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300)
        reached = int(run.stdout.split()[-1]) + 1
        assert run.returncode == 0 or uncaught in run.stderr, (
            reached - 1,
            run.stderr[-2000:],
        )
        done = last if run.returncode == 0 else reached


def test_a_footer_is_compared_with_the_manifest_before_a_column_is_read():
    table = lake_on(world(), "again-").table("d.t")
    schema = table.version.schema
    (state,) = table.states().values()
    file = next(file for file in state.files if file.rows > 1)
    path = table.meta.paths.data(file)
    with pytest.raises(Corrupt, match="another number of rows"):
        DataReader(Env(world()), path, file._replace(rows=file.rows + 1), schema)
    twice = schema.columns.field(0)
    made = pa.table([pa.array([1, 2], twice.type)] * 2, schema=pa.schema([twice, twice.with_name("other")]))
    sink = pa.BufferOutputStream()
    pq.write_table(made, sink)
    data = sink.getvalue().to_pybytes()
    entry = file._replace(rows=2, bytes=len(data), footer_bytes=None, footer_checksum=None)
    with pytest.raises(Corrupt, match="two columns with one field id"):
        DataReader(Env(with_file(path, data)), path, entry, schema)


@pytest.mark.parametrize("kind", [None, 8, 9, 14, 16, 42, -1])
def test_a_row_of_no_kind_is_corrupt_wherever_it_is_read(kind, monkeypatch):
    options = {"bucket": 1, "write-only": "true"}
    table = new_lake().create_table("d.t", "id BIGINT NOT NULL, v INT", primary_key=["id"], options=options)
    table.upsert({"id": range(100), "v": range(100)})
    table.compact(full=True)
    write = pq.ParquetWriter.write_table

    def forging(writer: pq.ParquetWriter, rows: pa.Table, *given: object, **named: object) -> None:
        if ROW_KIND in rows.column_names and rows.num_rows:
            kinds = [kind, *rows[ROW_KIND].to_pylist()[1:]]
            rows = rows.set_column(rows.column_names.index(ROW_KIND), ROW_KIND, pa.array(kinds, pa.int8()))
        write(writer, rows, *given, **named)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", forging)
    table.upsert({"id": [1, 2, 3], "v": [7, 8, 9], "op": ["+U", "-D", "+U"]}, row_kind="op")
    monkeypatch.undo()
    assert any("row kind" in finding.what for finding in table.verify())
    for verb in (
        lambda: table.scan().to_arrow(),
        lambda: table.scan(where="id = 1").to_arrow(),
        lambda: table.get({"id": 1}),
        lambda: table.compact(),
        lambda: table.compact(full=True),
        lambda: table.changes(2, 3).to_arrow(),
        lambda: table.changes(2, 3, mode="delta").to_arrow(),
    ):
        with pytest.raises(Corrupt, match="row without a row kind"):
            verb()


def test_a_wrong_number_of_deletes_is_found(monkeypatch):
    table = new_lake().create_table("d.t", "id BIGINT NOT NULL", primary_key=["id"], options={"bucket": 1, "write-only": "true"})
    monkeypatch.setattr("lsmlake.files.data_writer.INSERT", 3)
    table.upsert({"id": [1, 2, 3], "op": ["+U", "-D", "+U"]}, row_kind="op")
    monkeypatch.undo()
    assert any("rows are no inserts, the manifest says" in finding.what for finding in table.verify())
