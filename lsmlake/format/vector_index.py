"""The vector index: the location of the deletion vector of each live file that has one.

It is a chain of index manifests. Each holds what its commits changed, and names the older ones that it adds to; later ones win.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from lsmlake.errors import Corrupt
from lsmlake.format.files import VectorRef
from lsmlake.schema.envelope import check_lengths, pack, unpack
from lsmlake.types.json_shape import BYTES_MAX, NAME, RESTORE, ROWS_MAX, JsonKind, check, integer, listing, one_of, optional

_VECTORS = "deletion-vector-v1"
_FILES_MAX = 1 << 26
_PART = JsonKind(
    "the name, the size and the number of vectors of an index manifest",
    lambda part: (
        isinstance(part, list)
        and len(part) == 3
        and NAME.fits(part[0])
        and all(isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= BYTES_MAX for number in part[1:])
    ),
)
_INDEX_COLUMNS = {
    "file": listing(NAME, _FILES_MAX),
    "puffin": listing(optional(NAME), _FILES_MAX),
    "offset": listing(integer(0, BYTES_MAX), _FILES_MAX),
    "length": listing(integer(0, (1 << 31) - 1), _FILES_MAX),
    "cardinality": listing(integer(0, ROWS_MAX), _FILES_MAX),
}
_OFFSET_MIN, _LENGTH_MIN = 4, 20  # bytes of the magic of a Puffin file, and of the smallest vector
_NONE = VectorRef("", 0, 0, 0)


class VectorChanges(dict[str, VectorRef | None]):
    """Data file -> its vector from now on; None: it has none any more. Never modified once it is part of an index."""

    @cached_property
    def by_puffin(self) -> Mapping[str, Sequence[str]]:
        """Puffin file -> the data files whose vectors it holds."""
        found: dict[str, list[str]] = {}
        for name, ref in self.items():
            if ref is not None:
                found.setdefault(ref.puffin, []).append(name)
        return found


class IndexPart(NamedTuple):
    """An index manifest by its name, its exact size and the number of its files."""

    name: str
    bytes: int
    files: int


class IndexManifest(NamedTuple):
    """`parts`: the older index manifests that this one adds to, oldest first. `follows`: the index manifest of the snapshot
    before; None: there was none. `changes`: newer than all parts; those of the commit, and those of parts that it replaced."""

    parts: tuple[IndexPart, ...]
    follows: str | None
    changes: VectorChanges


class VectorIndex(Mapping[str, VectorRef]):
    """Data file name -> location of its vector, for all live files that have one. `layers`: changes, oldest first."""

    def __init__(self, layers: Sequence[VectorChanges]) -> None:
        self.layers = tuple(layer for layer in layers if layer)

    def __getitem__(self, name: str) -> VectorRef:
        for layer in reversed(self.layers):
            if name in layer:
                if (found := layer[name]) is not None:
                    return found
                break
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._merged)

    def __len__(self) -> int:
        return len(self._merged)

    def __repr__(self) -> str:
        return repr(self._merged)

    def puffins_in_use(self, names: Collection[str]) -> set[str]:
        """Those of some Puffin files that hold the vector of a file."""
        return {
            puffin
            for puffin in names
            for layer in self.layers
            for name in layer.by_puffin.get(puffin, ())
            if (ref := self.get(name)) is not None and ref.puffin == puffin
        }

    @cached_property
    def _merged(self) -> dict[str, VectorRef]:
        return {name: ref for name, ref in merged(self.layers).items() if ref is not None}


def merged(layers: Sequence[VectorChanges]) -> VectorChanges:
    """The changes of several layers, oldest first, as one."""
    found = VectorChanges()
    for layer in layers:
        found.update(layer)
    return found


def encode_index(index: IndexManifest) -> bytes:
    refs = [_NONE if ref is None else ref for ref in index.changes.values()]
    columns = dict(zip(VectorRef._fields, map(list, zip(*refs, strict=True)), strict=True)) if refs else {}
    if refs:
        columns["puffin"] = [name or None for name in columns["puffin"]]
    parts = [list(part) for part in index.parts]
    return pack("INDX", {"kind": _VECTORS, "follows": index.follows, "parts": parts, "file": list(index.changes), **columns})


def decode_index(data: bytes, where: str) -> IndexManifest:
    """Decodes an index manifest. Raises Corrupt or UnsupportedFormat naming `where`."""
    content = unpack("INDX", data, where)
    kinds = {"kind": one_of(_VECTORS), "follows": optional(NAME), "parts": listing(_PART), **_INDEX_COLUMNS}
    empty = isinstance(content, dict) and not content.get("file")
    check("index manifest", content, kinds, where, may_lack=VectorRef._fields if empty else ())
    columns = [content.get(name, []) for name in VectorRef._fields]
    check_lengths("index manifest", [content["file"], *columns], where)
    names: dict[str, str] = {}
    columns[0] = [names.setdefault(name, name) for name in columns[0]]  # a Puffin file holds many vectors: keep one text of each
    refs = [None if ref.puffin is None else ref for ref in map(VectorRef, *columns)]
    if wrong := [ref for ref in refs if ref is not None and (ref.offset < _OFFSET_MIN or ref.length < _LENGTH_MIN)]:
        expected = f"offsets from {_OFFSET_MIN} and lengths from {_LENGTH_MIN}"
        raise Corrupt("index manifest has an invalid place", where=where, expected=expected, found=wrong[0], cure=RESTORE)
    found = VectorChanges(zip(content["file"], refs, strict=True))
    if len(found) < len(content["file"]):
        raise Corrupt("index manifest names a file twice", where=where, expected="one vector per file", cure=RESTORE)
    return IndexManifest(tuple(IndexPart(*part) for part in content["parts"]), content["follows"], found)
