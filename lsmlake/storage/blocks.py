"""Reads a large immutable file through a cache on a local disk, in whole blocks, so that reads of other ranges find them."""

from __future__ import annotations

from collections.abc import Sequence

from lsmlake.storage.disk_cache import DiskCache
from lsmlake.storage.ranges import Fetch, Range

_BLOCK_BYTES = 1 << 19


def through(cache: DiskCache, file: str, size: int, fetch: Fetch) -> Fetch:
    """`fetch` for ranges of a file of `size` bytes that requests only blocks which the cache lacks."""

    def read(wanted: Sequence[Range]) -> list[memoryview]:
        numbers = sorted({number for one in wanted for number in _blocks(one)})
        blocks = {number: cache.get(file, _part(number)) for number in numbers}
        missing = [number for number in numbers if blocks[number] is None]
        ranges = [Range(number * _BLOCK_BYTES, min(size, (number + 1) * _BLOCK_BYTES)) for number in missing]
        if missing:
            for number, one, data in zip(missing, ranges, fetch(ranges), strict=True):
                blocks[number] = data
                if len(data) == one.stop - one.start:
                    cache.put(file, _part(number), data)
        return [_cut(one, blocks) for one in wanted]

    return read


def _part(number: int) -> str:
    return f"block {number} of {_BLOCK_BYTES}"


def _blocks(one: Range) -> range:
    return range(one.start // _BLOCK_BYTES, (one.stop - 1) // _BLOCK_BYTES + 1)


def _cut(one: Range, blocks: dict[int, memoryview]) -> memoryview:
    """The bytes of a range."""
    starts = [(number, number * _BLOCK_BYTES) for number in _blocks(one)]
    parts = [blocks[number][max(0, one.start - start) : one.stop - start] for number, start in starts]
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
