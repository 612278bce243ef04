"""Covers: every key is in one bucket, whatever was split and merged, and a second reader finds the buckets that have no files."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from lsmlake.errors import Corrupt
from lsmlake.format.data_files import Bucket
from lsmlake.lsm.cover import Cover, Covers, Share, common_buckets
from lsmlake.lsm.pick.reshaping import Reshaping, parts_of, pick_reshapings, to_cover

HASHES = np.random.default_rng(0).integers(-(2**31), 2**31, 2000).astype(np.int32)


@st.composite
def covers(draw) -> list[Share]:
    """A cover that splits have made of a number of buckets."""
    shares = [Share(number, first) for first in [draw(st.integers(1, 5))] for number in range(first)]
    for place in draw(st.lists(st.integers(0, 100), max_size=8)):
        chosen = shares.pop(place % len(shares))
        shares += chosen.parts(2)
    return shares


@examples(200)
@given(covers())
def test_each_key_is_in_the_bucket_whose_hash_it_has(shares):
    cover = Cover.of(shares, "t")
    numbers = cover.number_of(HASHES)
    assert [cover.number_of_one(hash_) for hash_ in HASHES[:99].view(np.uint32).tolist()] == numbers[:99].tolist()
    for number, total in shares:
        assert ((numbers == number) == (HASHES.astype(np.int64) % total == number)).all()
    assert set(cover.shares) == set(shares)
    assert {number: cover.total(number) for number, _ in shares} == dict(shares)


@examples(200)
@given(covers(), st.data())
def test_slots_without_files_are_buckets_of_their_own(shares, data):
    stored = data.draw(st.lists(st.sampled_from(shares), min_size=1, unique=True))
    cover = Cover.of(stored, "t")
    assert set(stored) <= set(cover.shares)
    assert all(share.total == cover.slots for share in set(cover.shares) - set(stored))
    assert sum(cover.slots // share.total for share in cover.shares) == cover.slots


def test_buckets_that_overlap_are_damage():
    for shares in ([Share(0, 1), Share(1, 2)], [Share(0, 2), Share(2, 4)], [Share(0, 3), Share(1, 4)]):
        with pytest.raises(Corrupt, match="overlap"):
            Cover.of(shares, "t")


@examples(100)
@given(covers(), covers())
def test_the_buckets_that_have_keys_in_common(one, other):
    cover = Cover.of(other, "t")
    for share in one:
        assert set(cover.meeting(share)) == {each for each in other if each.meets(share)}


@examples(100)
@given(covers(), covers())
def test_from_one_cover_to_another(one, other):
    now, wanted = Cover.of(one, "t"), Cover.of(other, "t")
    after = set(now.shares)
    for step in to_cover(now, wanted):
        assert after.issuperset(step.sources)
        after = (after - set(step.sources)) | set(step.targets)
    assert after == set(wanted.shares)


@examples(100)
@given(covers(), covers())
def test_a_key_has_one_common_bucket(one, other):
    common = common_buckets((Bucket((), *share[:1]), share.total) for share in (*one, *other))
    for first in one:
        for second in other:
            placed = [common[Bucket((), share.number), share.total] for share in (first, second)]
            assert not first.meets(second) or placed[0] == placed[1]
    for (bucket, total), (made, whole) in common.items():
        assert total % whole == 0
        assert bucket.number % whole == made.number


def test_a_cover_that_does_not_change_keeps_its_buckets():
    shares = [(Bucket((), 0), 2), (Bucket((), 1), 4), (Bucket((), 3), 4)]
    assert common_buckets(shares) == {share: share for share in shares}


def test_rows_of_partitions_with_other_covers():
    mixed = Cover.of([Share(0, 2), Share(1, 4), Share(3, 4)], "t")
    covers = Covers(1, {(0, ("a",)): mixed, (0, ("b",)): Cover(3)})
    codes = np.arange(len(HASHES)) % 3
    numbers = covers.number_of(HASHES, codes, [(0, ("a",)), (0, ("b",)), (0, ("c",))])
    assert (numbers[codes == 0] == mixed.number_of(HASHES[codes == 0])).all()
    assert (numbers[codes == 1] == np.mod(HASHES[codes == 1], 3)).all()
    assert (numbers[codes == 2] == 0).all()
    assert covers.most == 4


@pytest.mark.parametrize(
    ("size", "parts"), [(100, 1), (101, 8), (199, 8), (200, 8), (201, 16), (10_000, 512)], ids=lambda value: str(value)
)
def test_into_how_many_buckets_one_splits(size, parts):
    """Each is at most a quarter full, and at least an eighth."""
    assert parts_of(size, 100) == parts
    assert parts == 1 or 12.5 <= size / parts <= 25


def test_a_large_bucket_splits_alone():
    cover = Cover.of([Share(0, 2), Share(1, 4), Share(3, 4)], "t")
    sizes = {Share(0, 2): 101, Share(1, 4): 99, Share(3, 4): 50}
    assert pick_reshapings(cover, sizes, 100) == [Reshaping((Share(0, 2),), Share(0, 2).parts(8))]


def test_sisters_that_have_shrunk_merge_as_far_as_they_fit():
    cover = Cover(8)
    sizes = dict.fromkeys(cover.shares, 1)
    (step,) = pick_reshapings(cover, sizes, 100)
    assert set(step.sources) == set(cover.shares)
    assert step.targets == (Share(0, 1),)
    sizes[Share(1, 8)] = 12
    steps = pick_reshapings(cover, sizes, 100)
    assert {step.targets for step in steps} == {(Share(0, 2),), (Share(3, 4),)}
    assert pick_reshapings(cover, dict.fromkeys(cover.shares, 7), 100) == []


@examples(200)
@given(covers(), st.data())
def test_what_is_picked_leads_to_an_end(shares, data):
    """Splits and merges never take turns."""
    cover = Cover.of(shares, "t")
    sizes = {share: data.draw(st.integers(1, 500)) for share in cover.shares}
    for _ in range(20):
        steps = pick_reshapings(cover, sizes, 100)
        if not steps:
            break
        for step in steps:
            total = sum(sizes.pop(share, 0) for share in step.sources)
            sizes |= dict.fromkeys(step.targets, total // len(step.targets))
        cover = Cover.of(sizes, "t")
    assert not steps
