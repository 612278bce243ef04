"""Forged files: whatever a field of a metadata file or a deletion vector holds, with a right checksum, every verb gives an answer
or an error of lsmlake that it foresaw.

`LSMLAKE_EXAMPLES=20 pytest tests/test_forged.py` forges twenty times as many.
"""

from __future__ import annotations

import copy
import os
import random
import zlib
from collections.abc import Callable
from unittest.mock import patch

import msgpack
import numpy as np
import pyarrow as pa
import pytest
from strategies import contents, copied, lake_on
from test_damage import QUESTIONS, with_file, world

from lsmlake.errors import Corrupt, InternalError, LakeError
from lsmlake.format import manifest, puffin
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.format.envelope import unwrap, unwrap_json, wrap, wrap_json
from lsmlake.store.memory import MemoryStorage
from lsmlake.store.metadata import Metadata
from lsmlake.table import Table

FORGERIES = int(4 * float(os.environ.get("LSMLAKE_EXAMPLES", "1")))
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
    return unwrap_json(kind, data, path) if kind.islower() else manifest._unpack(kind, data, path)


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


def survives(storage: MemoryStorage, told: object) -> None:
    """Every verb gives an answer, or an error of lsmlake that it foresaw."""
    for verb in verbs(lambda: lake_on(copied(storage), "again-").table("d.t")):
        try:
            verb()
        except LakeError as error:
            assert not isinstance(error, InternalError), (told, error)


@pytest.mark.parametrize("where", KINDS)
def test_no_verb_stumbles_over_forged_metadata(where):
    chance, kind = random.Random(where), KINDS[where]
    files = [(path, data) for path, data in contents(world()).items() if f"/{where}" in path and not path.endswith("LATEST")]
    read = Metadata._read
    with patch.object(Metadata, "_read", lambda self, path, length: read(self, path, None)):  # as if who names it were forged too
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
    assert any("past the end of its file" in what for _, what in table.verify())


def test_content_that_claims_or_has_a_great_size_is_not_unpacked():
    raw = bytes(1 << 26)
    bomb = pa.Codec("zstd").compress(raw, asbytes=True)
    for size in (len(raw), 1 << 50, (1 << 64) - 1):
        with pytest.raises(Corrupt, match="content is too large"):
            manifest.decode(wrap("MANF", size.to_bytes(8, "big") + bomb), "m")
    assert unwrap("MANF", wrap("MANF", b"x"), "m") == b"x"


@pytest.mark.parametrize("depth", [500, 100_000])
def test_json_nested_without_end_is_refused(depth):
    path = next(path for path in contents(world()) if path.endswith("schema-0"))
    data = b'{"format": "lsmlake-schema", "version": 1, "x": ' + b"[" * depth + b"]" * depth + b"}"
    with pytest.raises(Corrupt, match="schema-0"):
        lake_on(with_file(path, data)).table("d.t")
