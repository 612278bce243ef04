"""Chooses between lookups and a scan for a set of keys, by estimates of their time: both work in as many threads."""

from __future__ import annotations

from math import exp
from typing import NamedTuple

_KEY_US = 15.0  # finds a key
_PAGE_US = 70.0  # reads, decompresses and decodes a value of a page
_PAGE_ROWS = 6_500  # of a wide column; narrow ones have more
_PLAN_US = 8_000.0  # of a scan
_VALUE_US = 0.012  # decodes a value in a scan
_GROUP_ROWS = 1 << 17


class Files(NamedTuple):
    """The files that can hold the keys. `rows`: of all; `paged`: of those that are not kept in memory as a whole. `columns`: how
    many the table has; `nested`: whether one of them is, so that row groups must be read."""

    rows: int
    paged: int
    columns: int
    nested: bool


def lookups_are_cheaper(keys: int, files: Files) -> bool:
    """Whether lookups of distinct keys take less time than a scan of the files that filters by them."""
    return _lookups_us(keys, files) <= _PLAN_US + files.rows * files.columns * _VALUE_US


def _lookups_us(keys: int, files: Files) -> float:
    if not files.paged:
        return keys * _KEY_US
    paged_keys = keys * files.paged / files.rows
    if files.nested:
        decoded = min(paged_keys * _GROUP_ROWS, files.paged) * files.columns
        return keys * _KEY_US + decoded * _VALUE_US
    pages = files.paged / _PAGE_ROWS
    return keys * _KEY_US + files.columns * pages * (1 - exp(-paged_keys / pages)) * _PAGE_US  # several keys share a page
