"""Puffin files: layout as specified, every vector round-trips, damage is detected."""

from __future__ import annotations

import json

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from lsmlake.errors import Corrupt
from lsmlake.format import puffin
from lsmlake.format.deletion_vector import EMPTY, DeletionVector

VECTORS = {
    "data-1.parquet": DeletionVector.of(np.array([0, 19, 27, 42, 43, 48])),
    'データ"2".parquet': DeletionVector.of(np.arange(100_000)),
    "data-3.parquet": EMPTY,
}


def payload_of(data: bytes) -> bytes:
    size = int.from_bytes(data[-12:-8], "little")
    return data[-12 - size : -12]


def with_payload(payload: bytes, blobs: bytes = b"") -> bytes:
    return b"PFA1" + blobs + b"PFA1" + payload + len(payload).to_bytes(4, "little") + bytes(4) + b"PFA1"


def test_layout_is_that_of_the_specification():
    data, placed = puffin.encode(VECTORS)
    payload = json.loads(payload_of(data))
    assert data[:4] == data[-4:] == b"PFA1"
    assert data[-8:-4] == bytes(4)
    assert data == with_payload(payload_of(data), b"".join(vector.encode() for vector in VECTORS.values()))
    assert payload["properties"] == {"created-by": "lsmlake"}
    assert payload["blobs"][0] == {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": 4,
        "length": 52,
        "properties": {"referenced-data-file": "data-1.parquet", "cardinality": "6"},
    }
    assert [blob["properties"]["referenced-data-file"] for blob in payload["blobs"]] == list(placed) == list(VECTORS)


def test_a_blob_is_read_by_its_place_alone():
    data, placed = puffin.encode(VECTORS)
    for name, (offset, length, cardinality) in placed.items():
        vector = DeletionVector.decode(data[offset : offset + length], "f")
        assert vector == VECTORS[name]
        assert len(vector) == cardinality


def test_the_footer_has_the_same_places():
    data, placed = puffin.encode(VECTORS)
    assert puffin.decode_footer(data, "f") == placed


_names = st.text(st.characters(exclude_categories=["Cs"]))


@examples(50)
@given(st.dictionaries(_names, st.sets(st.integers(0, 1 << 40), max_size=20), max_size=5))
def test_decodes_to_what_was_encoded(sets):
    vectors = {name: DeletionVector.of(np.array(list(positions), dtype=np.int64)) for name, positions in sets.items()}
    data, _ = puffin.encode(vectors)
    assert puffin.decode(data, "f") == vectors
    assert list(puffin.decode(data, "f")) == list(vectors)


def test_same_vectors_make_the_same_bytes():
    again = {name: DeletionVector.of(vector.positions()) for name, vector in VECTORS.items()}
    assert puffin.encode(again) == puffin.encode(VECTORS)


DATA = puffin.encode({name: VECTORS[name] for name in ("data-1.parquet", "data-3.parquet")})[0]
PAYLOAD = payload_of(DATA)


class TestDamage:
    def test_any_flipped_bit_is_detected_or_changes_no_vector(self):
        """The footer has no checksum: a flip inside a name or a free text leaves a well-formed file."""
        truth = sorted(vector.encode() for vector in puffin.decode(DATA, "f").values())
        payload_at = DATA.index(PAYLOAD)
        silent = 0
        for at in range(len(DATA) * 8):
            damaged = bytearray(DATA)
            damaged[at // 8] ^= 1 << at % 8
            try:
                vectors = puffin.decode(bytes(damaged), "index/dv-1")
            except Corrupt as error:
                assert error.where.startswith("index/dv-1")
                assert "restore the file" in str(error)
                continue
            silent += 1
            assert payload_at <= at // 8 < len(DATA) - 12
            assert sorted(vector.encode() for vector in vectors.values()) == truth
        assert silent < len(PAYLOAD) * 8

    def test_any_truncation_is_detected(self):
        for length in range(len(DATA)):
            with pytest.raises(Corrupt):
                puffin.decode(DATA[:length], "f")

    @pytest.mark.parametrize(
        ("damaged", "message"),
        [
            (b"PFA1", "truncated, expected at least 20 bytes, found 4"),
            (b"PAR1" + DATA[4:], "bad magic at its start.*expected b'PFA1', found b'PAR1'"),
            (DATA[:-4] + b"PAR1", "bad magic at its end"),
            (DATA[:-8] + b"\1\0\0\0PFA1", "unknown flags, expected 00000000, found 01000000"),
            (DATA[:-12] + b"\xff\xff\xff\xff" + DATA[-8:], "invalid size.*found -1"),
            (DATA[:-12] + b"\xff\xff\xff\x7f" + DATA[-8:], "invalid size"),
            (DATA[:-12] + b"\x05\0\0\0" + DATA[-8:], "does not start at the expected position"),
            (with_payload(b"{"), "footer cannot be read"),
            (with_payload(b"\xff"), "footer cannot be read"),
            (with_payload(b"[]"), "footer cannot be read"),
            (with_payload(b'{"blobs":[{}]}'), "footer cannot be read.*type"),
            (
                with_payload(PAYLOAD.replace(b"deletion-vector-v1", b"apache-datasketches-theta-v1")),
                "not an uncompressed deletion-vector-v1",
            ),
            (
                with_payload(PAYLOAD.replace(b'"fields"', b'"compression-codec":"zstd","fields"')),
                "not an uncompressed deletion-vector-v1",
            ),
            (with_payload(PAYLOAD), "is outside the blobs, expected bytes 4 to 4, found 52 bytes at 4"),
            (DATA.replace(b'"offset":4', b'"offset":3'), "is outside the blobs"),
            (DATA.replace(b"data-3", b"data-1"), "two vectors of one data file"),
            (
                DATA.replace(b'"cardinality":"6"', b'"cardinality":"7"'),
                "of data-1.parquet: wrong cardinality, expected 7, found 6",
            ),
            (with_payload(PAYLOAD.replace(b'"offset":4', b'"offset":Infinity')), "footer cannot be read"),
            *(
                (with_payload(PAYLOAD.replace(b'"offset":4,', b'"offset":%s,' % v)), "not an integer")
                for v in (b'"4"', b"4.7", b"true")
            ),
            *(
                (with_payload(PAYLOAD.replace(b':"6"', b":%s" % v)), "invalid properties")
                for v in (b"6", b'"+6"', b'" 6"', b"[6]")
            ),
            (with_payload(PAYLOAD.replace(b'"data-1.parquet"', b"7")), "invalid properties"),
        ],
    )
    def test_damage_is_reported_by_kind(self, damaged, message):
        with pytest.raises(Corrupt, match=message):
            puffin.decode(damaged, "f")
