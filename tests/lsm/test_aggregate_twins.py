"""Every aggregate function against a twin that folds row by row in plain Python; and that it can be reduced in parts."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from aggregate_model import LONG, TWINS, first_of, same, small, twin_of
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from lsmlake.errors import InvalidData
from lsmlake.lsm.aggregate import FieldSettings, function

FAST = examples(30)


def ids(twins):
    return ["-".join([name, str(type_).split("<")[0], *options]) for name, options, type_, *_ in twins]


def groups_of(values, retracts):
    row = st.tuples(st.one_of(st.none(), values), st.booleans() if retracts else st.just(False))
    return st.lists(st.lists(row, min_size=1, max_size=7), min_size=1, max_size=6)


def made(name, type_, **options):
    return function(name, pa.field("c", type_), FieldSettings(**options), "c")


def reduce(fn, type_, groups):
    """The groups as one array that begins in the middle of its buffers."""
    flat = [row for group in groups for row in group]
    values = pa.array([flat[0][0], *(value for value, _ in flat)], type_).slice(1)
    back = np.array([back for _, back in flat])
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    reduced = fn.reduce(values, starts, back if back.any() else None)
    reduced.validate(full=True)
    assert reduced.type == type_ and len(reduced) == len(groups)
    return reduced.to_pylist()


@pytest.mark.parametrize(("name", "options", "type_", "values", "add", "take", "nulls"), TWINS, ids=ids(TWINS))
def test_the_fold_is_that_of_its_twin(name, options, type_, values, add, take, nulls):
    fn = made(name, type_, **options)
    assert fn.retracts or take is None

    @FAST
    @given(groups_of(values, take is not None))
    def check(groups):
        assert same(reduce(fn, type_, groups)) == same([twin_of(add, take, group, nulls) for group in groups])

    check()


IN_PARTS = [twin for twin in TWINS if made(twin[0], twin[2], **twin[1]).associative_adds]


@pytest.mark.parametrize(("name", "options", "type_", "values", "add", "take", "nulls"), IN_PARTS, ids=ids(IN_PARTS))
def test_parts_are_reduced_first_only_for_functions_that_allow_it(name, options, type_, values, add, take, nulls):
    fn = made(name, type_, **options)

    @examples(20)
    @given(groups_of(values, False), st.data())
    def check(groups, data):
        parted = []
        for group in groups:
            a = data.draw(st.integers(0, len(group) - 1))
            b = data.draw(st.integers(a + 1, len(group)))
            parted.append([*group[:a], (reduce(fn, type_, [group[a:b]])[0], False), *group[b:]])
        assert same(reduce(fn, type_, parted)) == same(reduce(fn, type_, groups))

    check()


@pytest.mark.parametrize(("name", "options", "type_", "values", "add", "take", "nulls"), TWINS[::4], ids=ids(TWINS[::4]))
def test_ignored_retracts_are_as_if_never_written(name, options, type_, values, add, take, nulls):
    fn = made(name, type_, ignore_retract=True, **options)

    @examples(15)
    @given(groups_of(values, True))
    def check(groups):
        adds = [[row for row in group if not row[1]] for group in groups]
        assert same(reduce(fn, type_, groups)) == same([twin_of(add, None, group, nulls) for group in adds])

    check()


@FAST
@given(groups_of(small, False))
def test_first_value_is_the_first_even_if_null(groups):
    assert reduce(made("first_value", LONG), LONG, groups) == [first_of(group) for group in groups]


MOST = 2**63 - 1
edges = st.sampled_from([0, 1, -1, 2, -2, 3, 2**31, 2**32, -(2**32), 2**62, -(2**62), MOST, -MOST, -MOST - 1])


@pytest.mark.parametrize("name", ["sum", "product"])
def test_long_totals_are_exact_or_refused(name):
    fn, total = made(name, LONG), {"sum": sum, "product": math.prod}[name]

    @examples(150)
    @given(st.lists(st.lists(edges, min_size=1, max_size=4), min_size=1, max_size=4))
    def check(groups):
        rows = [[(value, False) for value in group] for group in groups]
        totals = [total(group) for group in groups]
        if all(-MOST - 1 <= value <= MOST for value in totals):
            assert reduce(fn, LONG, rows) == totals
        else:
            with pytest.raises(InvalidData, match="does not fit"):
                reduce(fn, LONG, rows)

    check()


@FAST
@given(st.lists(st.lists(st.tuples(st.integers(-(10**38) + 1, 10**38 - 1), st.booleans()), min_size=1, max_size=5), min_size=1))
def test_wide_decimal_sums_are_exact_or_refused(groups):
    type_ = pa.decimal128(38, 0)
    rows = [[(Decimal(value), back) for value, back in group] for group in groups]
    totals = [sum(-value if back else value for value, back in group) for group in groups]
    if all(abs(value) < 10**38 for value in totals):
        assert reduce(made("sum", type_), type_, rows) == [Decimal(value) for value in totals]
    else:
        with pytest.raises(InvalidData, match="does not fit"):
            reduce(made("sum", type_), type_, rows)
