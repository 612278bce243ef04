"""Deletion vectors against a set of integers, and their bytes against Iceberg's."""

from __future__ import annotations

import pickle
import zlib

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from lsmlake.errors import Corrupt
from lsmlake.format import roaring
from lsmlake.format.deletion_vector import EMPTY, DeletionVector

GOLDEN_POSITIONS = [0, 19, 27, 42, 43, 48]  # encoded by Iceberg's Java code
GOLDEN = bytes.fromhex("0000002cd1d339640100000000000000000000003a300000010000000000050010000000000013001b002a002b00300054d61d2b")

_borders = st.sampled_from([0, 1 << 16, 5 << 16, 1 << 31, 1 << 32, 3 << 32])
_near_borders = st.builds(lambda border, step: max(0, border + step), _borders, st.integers(-70, 70))
_points = st.sets(_near_borders | st.integers(0, 400_000) | st.integers(0, (1 << 63) - 1), max_size=20)
_runs = st.builds(lambda start, length: set(range(start, start + length)), st.integers(0, 200_000), st.integers(0, 5_000))
POSITIONS = st.builds(lambda points, runs: points.union(*runs), _points, st.lists(_runs, max_size=2))


def vector(positions) -> DeletionVector:
    return DeletionVector.of(np.array(list(positions), dtype=np.int64))


def reframed(body: bytes) -> bytes:
    """A blob with a right length and checksum around any body (magic and bitmap)."""
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


class TestBytes:
    def test_are_those_of_iceberg(self):
        assert vector(GOLDEN_POSITIONS).encode() == GOLDEN
        assert DeletionVector.decode(GOLDEN, "f").positions().tolist() == GOLDEN_POSITIONS

    def test_of_no_position(self):
        assert EMPTY.encode() == reframed(bytes.fromhex("d1d33964") + bytes(8))
        assert DeletionVector.decode(EMPTY.encode(), "f") == EMPTY

    def test_of_a_long_run_are_few_even_after_a_union_of_single_positions(self):
        whole = vector(range(100, 50_000, 2)) | vector(range(101, 50_000, 2))
        assert len(whole.encode()) < 100
        assert whole.encode() == vector(range(100, 50_000)).encode()

    def test_with_empty_bitmaps_before_the_used_one_are_read(self):
        """Java writes a bitmap for every key up to the last."""
        bitmaps = enumerate([BitMap(), BitMap(), BitMap([7])])
        keyed = b"".join(key.to_bytes(4, "little") + bitmap.serialize() for key, bitmap in bitmaps)
        blob = reframed(bytes.fromhex("d1d33964") + (3).to_bytes(8, "little") + keyed)
        assert DeletionVector.decode(blob, "f").positions().tolist() == [(2 << 32) + 7]

    @examples(100)
    @given(POSITIONS)
    def test_decode_to_what_was_encoded(self, positions):
        encoded = vector(positions).encode()
        decoded = DeletionVector.decode(memoryview(encoded), "f")
        assert set(decoded.positions().tolist()) == positions
        assert decoded.encode() == encoded
        assert pickle.loads(pickle.dumps(decoded)) == decoded


class TestDamage:
    """Decoding changed bytes raises Corrupt or returns the original positions."""

    blob = vector([*GOLDEN_POSITIONS, *range(70_000, 80_000), *range(200_000, 300_000, 3), 1 << 40]).encode()

    def test_any_flipped_bit_of_the_golden_blob(self):
        for at in range(len(GOLDEN) * 8):
            damaged = bytearray(GOLDEN)
            damaged[at // 8] ^= 1 << at % 8
            with pytest.raises(Corrupt, match="index/dv-1: "):
                DeletionVector.decode(bytes(damaged), "index/dv-1")

    def test_any_cut_and_any_tail(self):
        for length in range(len(GOLDEN)):
            with pytest.raises(Corrupt):
                DeletionVector.decode(GOLDEN[:length], "f")
        with pytest.raises(Corrupt, match="length"):
            DeletionVector.decode(GOLDEN + b"\0", "f")

    @pytest.mark.parametrize(
        ("damaged", "message"),
        [
            (b"", "truncated, expected at least 20 bytes, found 0"),
            (bytes(30), "wrong length, expected 22 bytes, found 0"),
            (reframed(b"\xd1\xd3\x39\x65" + bytes(8)), "bad magic.*expected d1d33964, found d1d33965"),
            (GOLDEN[:-1] + b"\x2c", "checksum, expected 0x54d61d2c, found 0x54d61d2b"),
            (reframed(GOLDEN[4:-4] + b"\0"), "1 bytes past its bitmap"),
            (reframed(GOLDEN[4:-5]), "an invalid roaring bitmap"),
            (reframed(bytes.fromhex("d1d33964") + b"\xff" * 40), "an invalid roaring bitmap"),
            (reframed(bytes.fromhex("d1d33964") + BitMap64([1 << 63]).serialize()), "an invalid roaring bitmap.*key"),
        ],
    )
    def test_damage_is_reported_by_kind_with_place_and_cure(self, damaged, message):
        with pytest.raises(Corrupt, match=message) as caught:
            DeletionVector.decode(damaged, "index/dv-1")
        assert caught.value.where == "index/dv-1"
        assert "restore the file" in str(caught.value)

    @examples(200)
    @given(st.data())
    def test_under_a_right_checksum_is_corrupt_or_some_vector(self, data):
        body = bytearray(self.blob[4:-4])
        for at in data.draw(st.lists(st.integers(4, len(body) - 1) | st.integers(4, 60), min_size=1, max_size=6)):
            body[at] = data.draw(st.integers(0, 255))
        try:
            found = DeletionVector.decode(reframed(bytes(body)), "f").positions()
        except Corrupt:
            return
        assert (np.diff(found) > 0).all() and (found >= 0).all()

    @pytest.mark.parametrize(
        ("bitmap", "why"),
        [
            ("3a300000 00000100", "20 bytes, where at least 262164 are needed"),
            ("39300000 00000000", "cookie 12345"),
            ("3a300000 ffffffff", "4294967295 containers"),
            ("3a300000 02000000 0100 0000 0100 0000 18000000 1a000000 0500 0600", "keys that do not ascend"),
            ("3a300000 01000000 0000 0100 11000000 0500 0600", "are not stored one after another"),
            ("3a300000 01000000 0000 0100 10000000 0600 0600", "positions that do not ascend"),
            ("3a300000 01000000 0000 0100 10000000 0600", "where at least"),
            ("3a300000 01000000 0000 ff2f 10000000" + "01" * 8192, "a bitmap with a wrong cardinality"),
            ("3b300000 01 0000 0900 0000", "a run container without runs"),
            ("3b300000 01 0000 0900 ffff", "where at least 262163"),
            ("3b300000 01 0000 0900 0100 0500 0800", "runs with a wrong cardinality"),
            ("3b300000 01 0000 0900 0100 faff 0900", "runs that do not ascend"),
            ("3b300000 01 0000 0900 0200 0500 0400 0a00 0400", "runs that do not ascend"),
            ("3b300300 01" + "0000 0000 0100 0000 0200 0000 0300 0000" + "ffffff7f" * 4, "a container past the end of the bytes"),
        ],
    )
    def test_of_a_container_is_refused_before_the_library_reads_it(self, bitmap, why):
        data = (1).to_bytes(8, "little") + bytes(4) + bytes.fromhex(bitmap)
        with pytest.raises(roaring.Malformed, match=why):
            roaring.check(memoryview(data))
        with pytest.raises(Corrupt, match="an invalid roaring bitmap"):
            DeletionVector.decode(reframed(bytes.fromhex("d1d33964") + data), "f")

    @examples(100)
    @given(st.binary(max_size=80))
    def test_of_everything_is_corrupt(self, garbage):
        with pytest.raises(Corrupt):
            DeletionVector.decode(reframed(bytes.fromhex("d1d33964") + b"\1" + garbage), "f")


class TestValue:
    @examples(100)
    @given(POSITIONS, POSITIONS)
    def test_is_a_set_of_positions(self, left, right):
        a, b = vector(left), vector(right)
        assert a.positions().dtype == np.int64
        assert a.positions().tolist() == sorted(left)
        assert len(a) == a.cardinality == len(left)
        assert a.max_position == max(left, default=-1)
        assert (a | b) == vector(left | right)
        assert (a == b) == (left == right)
        assert a.positions().tolist() == sorted(left), "a union changes neither side"

    def test_takes_positions_unsorted_repeated_and_of_any_integer_type(self):
        for dtype in (np.int32, np.uint32, np.int64, np.uint64):
            assert DeletionVector.of(np.array([9, 3, 3, 7], dtype=dtype)).positions().tolist() == [3, 7, 9]
        assert DeletionVector.of(np.array([], dtype=np.int64)) == EMPTY
        assert DeletionVector.of(np.arange(20)[::-2]).positions().tolist() == list(range(1, 20, 2))

    def test_refuses_a_negative_position(self):
        with pytest.raises(AssertionError):
            vector([-1])

    @examples(100)
    @given(POSITIONS, st.integers(0, 200_000) | _near_borders, st.integers(0, 300))
    def test_mask_of_a_range_of_rows(self, positions, start, count):
        mask = vector(positions).dead_mask(start, count)
        assert mask.dtype == bool
        assert mask.tolist() == [row in positions for row in range(start, start + count)]

    def test_masks_of_neighbouring_ranges_make_the_whole(self):
        dead = vector(range(1, 200_000, 7))
        parts = [dead.dead_mask(start, 1_000) for start in range(0, 200_000, 1_000)]
        assert np.flatnonzero(np.concatenate(parts)).tolist() == list(range(1, 200_000, 7))

    @examples(100)
    @given(POSITIONS)
    def test_words_hold_each_position_as_one_bit(self, positions):
        numbers, words = vector(positions).words()
        assert numbers.dtype == words.dtype == np.int64
        assert numbers.tolist() == sorted({position >> 6 for position in positions})
        pairs = zip(numbers.tolist(), words.tolist(), strict=True)
        assert {(number << 6) + bit for number, word in pairs for bit in range(64) if word >> bit & 1} == positions

    def test_empty(self):
        assert vector([]) == EMPTY
        assert (len(EMPTY), EMPTY.max_position, [len(part) for part in EMPTY.words()]) == (0, -1, [0, 0])
        assert not EMPTY.dead_mask(0, 5).any()
