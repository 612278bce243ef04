"""Aggregate functions over bytes only a library can read: roaring bitmaps and sketches."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from datasketches import compact_theta_sketch, hll_sketch, tgt_hll_type, update_theta_sketch
from effort import scaled
from pyroaring import BitMap, BitMap64
from strategies import contents, new_lake

from lsmlake.errors import InvalidData
from lsmlake.lsm.aggregate import FieldSettings, function


def reduce(name, groups):
    made = function(name, pa.field("c", pa.binary()), FieldSettings(), "column 'c'")
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    return made.reduce(pa.array([part for group in groups for part in group], pa.binary()), starts, None).to_pylist()


def validate(name, value):
    function(name, pa.field("c", pa.binary()), FieldSettings(), "column 'c'").validate(pa.array([value], pa.binary()))


def hll(numbers, lg_k=12):
    sketch = hll_sketch(lg_k, tgt_hll_type.HLL_8)
    for number in numbers:
        sketch.update(number)
    return sketch.serialize_compact()


def theta(numbers):
    sketch = update_theta_sketch()
    for number in numbers:
        sketch.update(number)
    return sketch.compact().serialize()


@pytest.mark.parametrize(("name", "kind", "far"), [("rbm32", BitMap, 2**32 - 1), ("rbm64", BitMap64, 2**63)])
def test_bitmaps_are_united(name, kind, far):
    parts = [[1, 5], [5, far], range(1000, 5000, 2), range(1001, 5000, 2)]
    united, alone, nothing = reduce(name, [[kind(p).serialize() for p in parts] + [None], [None, kind([7]).serialize()], [None]])
    assert kind.deserialize(united) == kind([1, 5, far, *range(1000, 5000)])
    assert len(united) < 100  # runs
    assert kind.deserialize(alone) == kind([7])
    assert nothing is None


def test_sketches_estimate_the_union():
    parts = [range(3000), range(2000, 6000), range(5)]
    (united, alone), want = reduce("hll_sketch", [[hll(p) for p in parts], [None, hll([1])]]), 6000
    assert hll_sketch.deserialize(united).get_estimate() == pytest.approx(want, rel=0.05)
    assert alone == hll([1])
    united = reduce("theta_sketch", [[theta(p) for p in parts]])[0]
    assert compact_theta_sketch.deserialize(united).get_estimate() == pytest.approx(want, rel=0.05)


def test_a_union_of_hll_sketches_is_as_coarse_as_the_coarsest():
    sketch = hll_sketch.deserialize(reduce("hll_sketch", [[hll(range(9000), 12), hll(range(5), 10), hll(range(9000), 11)]])[0])
    assert sketch.lg_config_k == 10
    assert sketch.tgt_type == tgt_hll_type.HLL_4


SKETCHES = [("hll_sketch", hll, hll_sketch), ("theta_sketch", theta, compact_theta_sketch)]


@pytest.mark.parametrize(("name", "make", "read"), SKETCHES)
def test_unions_of_unions_estimate_the_same(name, make, read):
    a, b, c = (make(range(start, start + 6000)) for start in (0, 3000, 9000))
    at_once = reduce(name, [[a, b, c]])[0]
    for nested in ([*reduce(name, [[a, b]]), c], [a, *reduce(name, [[b, c]])]):
        assert read.deserialize(reduce(name, [nested])[0]).get_estimate() == read.deserialize(at_once).get_estimate()


@pytest.mark.parametrize("name", ["rbm32", "rbm64", "hll_sketch", "theta_sketch"])
@pytest.mark.parametrize("bad", [b"", b"no such bytes, nowhere near"])
def test_other_bytes_are_refused(name, bad):
    with pytest.raises(InvalidData, match=r"column 'c': the bytes cannot be read, expected (portable|serialised)"):
        reduce(name, [[bad, bad]])


def test_forged_sketches_are_refused_or_read_and_never_crash():
    """The library itself writes outside of its memory on some of these bytes. What a writer accepts can be merged for ever."""
    rng = random.Random(7)
    outcomes = set()
    for _ in range(scaled(60)):
        sketch = hll_sketch(rng.choice([4, 7, 9, 12]), rng.choice([tgt_hll_type.HLL_4, tgt_hll_type.HLL_6, tgt_hll_type.HLL_8]))
        first = rng.randrange(1 << 50)
        for number in range(rng.choice([0, 5, 9, 50, 1000])):
            sketch.update(first + number)
        for good in (sketch.serialize_compact(), sketch.serialize_updatable()):
            assert reduce("hll_sketch", [[good, good]])[0]
            forged = bytearray(good)
            for _ in range(rng.randrange(1, 4)):
                forged[rng.randrange(rng.choice([12, 44, len(good)])) % len(good)] = rng.randrange(256)
            forged = bytes(forged[: rng.choice([len(good), rng.randrange(len(good))])])
            try:
                validate("hll_sketch", forged)
            except InvalidData:
                outcomes.add("refused")
                continue
            outcomes.add("read")
            united = reduce("hll_sketch", [[forged, forged], [forged, good], [good, forged]])
            assert reduce("hll_sketch", [[*united, good, forged]])[0]
    assert outcomes == {"read", "refused"}


def test_a_list_with_a_gap_is_not_a_sketch():
    """Its union would be bytes that cannot be read."""
    whole = bytes.fromhex("0201070803010100" + "00000046") + bytes(28)
    validate("hll_sketch", whole)
    with pytest.raises(InvalidData, match="the list has a gap"):
        validate("hll_sketch", whole[:8] + bytes(28) + whole[8:12])


@pytest.mark.parametrize(("name", "kind"), [("rbm32", BitMap), ("rbm64", BitMap64)])
def test_bytes_after_a_bitmap_are_refused(name, kind):
    rng = random.Random(name)
    for _ in range(scaled(40)):
        bitmap = kind()
        for _ in range(rng.randrange(6)):
            first = rng.randrange(1 << rng.choice([12, 20, 31]))
            bitmap |= kind(range(first, first + rng.choice([1, 9, 9_000, 70_000]), rng.randrange(1, 9)))
        if rng.random() < 0.5:
            bitmap.run_optimize()
        good = bitmap.serialize()
        validate(name, good)
        with pytest.raises(InvalidData, match=f"found {len(good) + 3} bytes, {len(good)} expected"):
            validate(name, good + b"abc")


@pytest.mark.parametrize("name", ["rbm32", "rbm64", "hll_sketch", "theta_sketch"])
@pytest.mark.parametrize("engine", ["aggregation", "partial-update"])
def test_bad_bytes_are_refused_before_they_are_written(name, engine):
    lake = new_lake()
    options = {"merge-engine": engine, "fields.c.aggregate-function": name, "write-only": True}
    if engine == "partial-update":
        options["fields.g.sequence-group"] = "c"
    table = lake.create_table("d.t", "k INT, g INT, c BINARY", primary_key=["k"], options=options)
    before = contents(lake.env.storage)
    with pytest.raises(InvalidData, match=r"column 'c': the bytes cannot be read, expected (portable|serialised)"):
        table.upsert([{"k": 1, "g": 1, "c": b"no such bytes"}])
    assert contents(lake.env.storage) == before
