"""Finds the rows of foreign data files that deletes apply to, as deletion vectors.

- The vector of a data file holds all its deleted positions.
- A file of position deletes applies to data files of the same partition that are not newer.
- A file of equality deletes applies to older data files of the same partition, or of any. The keys of a partition are kept in
  memory, sorted, each with the newest sequence that deletes it. The row groups of a data file that can hold a key are read once
  per set of columns, and the keys are found by binary search. NULL equals NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lsmlake.errors import Corrupt, InvalidData
from lsmlake.files.data_reader import reading
from lsmlake.format.deletion_vector import EMPTY, DeletionVector, demand
from lsmlake.imports.foreign import COMPACT_THERE, EqualityDeletes, ForeignFile, ForeignVector, PositionDeletes, Sources, theirs
from lsmlake.kernels.keys import comparable
from lsmlake.lsm.lookup import find, groups
from lsmlake.storage.concurrency import together
from lsmlake.types import column_types
from lsmlake.types.type_table import of_integers

_PATH, _POSITION = 2147483546, 2147483545
"""The reserved field ids of the columns of position deletes."""
_BEYOND = "deletion vector marks a row past the end of its file"
_ROWS = 1 << 18


def dead_rows(sources: Sources, rows: Mapping[str, int]) -> dict[str, DeletionVector]:
    """The dead rows of each data file that has some, by its name. `rows`: how many rows each file has, by its name.

    Raises Corrupt, InvalidData, StorageFailed."""
    table, workers = sources.table, sources.env.workers
    vectors = _by_position(sources, rows)

    def vector(file: ForeignFile) -> tuple[str, DeletionVector] | None:
        with theirs():
            return None if file.vector is None else (file.name, _vector(sources, file.vector, rows[file.name], file.name))

    vectors |= dict(together(vector, table.files, workers, lambda done: None))
    keys = _Keys(sources)

    def equal(file: ForeignFile) -> tuple[str, DeletionVector] | None:
        positions = [hits for one in keys.of(file) for hits in _equal(sources, file, rows[file.name], one)]
        return (file.name, DeletionVector.of(np.concatenate(positions))) if positions else None

    files = sorted(table.files, key=lambda file: str(file.scope)) if table.equality_deletes else ()
    for name, dead in together(equal, files, 1, lambda done: None):
        vectors[name] = vectors.get(name, EMPTY) | dead
    return {name: dead for name, dead in vectors.items() if len(dead)}


def _vector(sources: Sources, vector: ForeignVector | DeletionVector, rows: int, of: str) -> DeletionVector:
    if isinstance(vector, DeletionVector):
        demand(vector.max_position < rows, _BEYOND, of, f"positions below {rows}", vector.max_position)
        return vector
    place = sources.outside.place(vector.uri)
    try:
        data = place.storage.read_range(place.path, vector.offset, vector.offset + vector.length)
    except FileNotFoundError as missing:
        raise _missing(vector.uri) from missing
    dead = DeletionVector.decode(data, f"{vector.uri}, vector of {of}", rows)
    if len(dead) != vector.cardinality:
        what = "deletion vector marks another number of rows"
        raise Corrupt(what, where=vector.uri, expected=vector.cardinality, found=len(dead), cure=COMPACT_THERE)
    return dead


# -- positions ----------------------------------------------------------------------------------------------------------


def _by_position(sources: Sources, rows: Mapping[str, int]) -> dict[str, DeletionVector]:
    """The rows that files of position deletes delete."""
    files = {file.name: file for file in sources.table.files if file.vector is None}
    oldest: dict[object, int] = {}
    for file in files.values():
        oldest[file.scope] = min(file.sequence, oldest.get(file.scope, file.sequence))

    def applies(deletes: PositionDeletes) -> bool:
        return deletes.sequence >= oldest.get(deletes.scope, deletes.sequence + 1)

    def read(deletes: PositionDeletes) -> dict[str, DeletionVector]:
        by_file: dict[str, list[np.ndarray]] = {}
        for name, positions in _positions(sources, deletes):
            file = files.get(name)
            if file is not None and file.sequence <= deletes.sequence and file.scope == deletes.scope:
                if positions.min() < 0 or positions.max() >= rows[name]:
                    raise Corrupt(
                        "position deletes name a row that its file does not have",
                        where=deletes.uri,
                        expected=f"positions below {rows[name]} of {name}",
                        found=int(positions.max()),
                        cure=COMPACT_THERE,
                    )
                by_file.setdefault(name, []).append(positions)
        return {name: DeletionVector.of(np.concatenate(parts)) for name, parts in by_file.items()}

    vectors: dict[str, DeletionVector] = {}
    wanted = filter(applies, sources.table.position_deletes)
    for some in together(read, wanted, sources.env.workers, lambda done: None):
        for name, dead in some.items():
            vectors[name] = vectors.get(name, EMPTY) | dead
    return vectors


def _positions(sources: Sources, deletes: PositionDeletes) -> Iterator[tuple[str, np.ndarray]]:
    """The positions in each batch of a file, by the names of data files."""
    place = sources.outside.place(deletes.uri)
    try:
        opened = place.storage.read(place.path)
    except FileNotFoundError as missing:
        raise _missing(deletes.uri) from missing
    with theirs(), reading(deletes.uri), opened as source:
        parquet = pq.ParquetFile(source)
        stored = {
            column_types.field_id(field): number
            for number, field in enumerate(parquet.schema_arrow)
            if column_types.has_field_id(field)
        }
        if not stored.keys() >= {_PATH, _POSITION}:
            expected = f"columns with the field ids {_PATH} and {_POSITION}"
            raise Corrupt(
                "not a file of position deletes", where=deletes.uri, expected=expected, found=sorted(stored), cure=COMPACT_THERE
            )
        names = [parquet.schema_arrow.names[stored[id]] for id in (_PATH, _POSITION)]
        for batch in parquet.iter_batches(_ROWS, columns=names):
            paths = batch.column(names[0]).cast(pa.string()).dictionary_encode()
            codes, positions = paths.indices.to_numpy(), batch.column(names[1]).to_numpy()
            order = np.argsort(codes, kind="stable")
            cuts = np.searchsorted(codes[order], np.arange(1, len(paths.dictionary)))
            yield from zip(paths.dictionary.to_pylist(), np.split(positions[order], cuts), strict=True)


# -- equality -----------------------------------------------------------------------------------------------------------


class _KeySet(NamedTuple):
    """Deleted keys: `keys` ascend, without nulls (`_comparable`); `newest`: the last sequence that deletes each of them.
    `bounded`: whether the first column has no null. `columns`: columns of the table, with their ids."""

    columns: pa.Schema
    keys: pa.Table
    newest: np.ndarray
    bounded: bool


class _Keys:
    """The keys of equality deletes, read when a data file needs them; those of one partition at a time, and those that apply to
    all partitions."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.known: dict[tuple, _KeySet] = {}

    def of(self, file: ForeignFile) -> list[_KeySet]:
        """The keys that may delete rows of a file."""
        wanted: dict[tuple, list[EqualityDeletes]] = {}
        for one in self.sources.table.equality_deletes:
            if one.sequence > file.sequence and (one.everywhere or one.scope == file.scope):
                wanted.setdefault((one.everywhere or one.scope, one.ids), []).append(one)
        self.known = {key: keys for key, keys in self.known.items() if key in wanted or key[0] is True}
        for key in wanted:
            if key not in self.known:
                every = self.sources.table.equality_deletes
                self.known[key] = self._read([one for one in every if (one.everywhere or one.scope, one.ids) == key])
        return [self.known[key] for key in wanted]

    def _read(self, deletes: Sequence[EqualityDeletes]) -> _KeySet:
        columns = self._columns(deletes[0])
        parts, sequences = [], []
        for one in deletes:
            with self.sources.open(one.uri, one.bytes, one.rows, columns) as reader:
                parts.append(reader.read(range(reader.groups), columns.names))
            sequences.append(np.full(one.rows, one.sequence, np.int64))
        rows = pa.concat_tables(parts)
        keys = _comparable(rows)
        _, first, code = np.unique(comparable([keys])[0], return_index=True, return_inverse=True)
        newest = np.zeros(len(first), np.int64)
        np.maximum.at(newest, code, np.concatenate(sequences))
        return _KeySet(columns, keys.take(pa.array(first)), newest, not rows.column(0).null_count)

    def _columns(self, deletes: EqualityDeletes) -> pa.Schema:
        """The columns of the keys. Raises InvalidData for a column by which rows are not compared."""
        table = self.sources.table
        known = {column_types.field_id(field): field for field in (*table.dropped, *table.columns)}
        fields = [known.get(id) for id in deletes.ids]
        if bad := [id for id, one in zip(deletes.ids, fields, strict=True) if one is None or not _is_comparable(one.type)]:
            raise InvalidData(
                "a file of equality deletes compares a column by which lsmlake does not compare",
                where=deletes.uri,
                expected="columns that are neither nested nor floating-point numbers",
                found=f"field ids {bad}",
                cure=COMPACT_THERE,
            )
        return pa.schema([field.with_nullable(True) for field in fields])


def _is_comparable(type_: pa.DataType) -> bool:
    return not pa.types.is_nested(type_) and not pa.types.is_floating(type_)


def _comparable(rows: pa.Table) -> pa.Table:
    """Each column without its nulls, then a column that flags them."""
    columns = {}
    for number, column in enumerate(rows.columns):
        columns[f"{number}"] = pc.fill_null(column, _zero(column.type)) if column.null_count else column
        columns[f"{number}?"] = column.is_null()
    return pa.table(columns)


def _zero(type_: pa.DataType) -> pa.Scalar:
    """Some value of a type."""
    t = pa.types
    if t.is_string(type_) or t.is_binary(type_):
        return pa.scalar("" if t.is_string(type_) else b"", type_)
    if t.is_boolean(type_) or t.is_decimal(type_):
        return pa.scalar(False if t.is_boolean(type_) else Decimal(0), type_)
    return of_integers(pa.scalar(0), type_)


def _equal(sources: Sources, file: ForeignFile, rows: int, wanted: _KeySet) -> Iterator[np.ndarray]:
    """The positions of the rows of a file that are equal to one of the keys."""
    keys = wanted.keys.filter(pa.array(wanted.newest > file.sequence))
    if not keys.num_rows or not rows:
        return
    with sources.open(file.uri, file.bytes, rows, wanted.columns) as reader:
        low, high, _ = reader.group_bounds(wanted.columns.names[0])
        some = groups(keys.select([0]), low, high).tolist() if wanted.bounded else None
        for chunk in reader.chunks(wanted.columns.names, some, rows=_ROWS):
            _, positions = find(keys, _comparable(chunk.table), repeats=True)
            if len(positions):
                yield positions + chunk.start


def _missing(uri: str) -> Corrupt:
    return Corrupt("a file of deletes is missing", where=uri, cure="restore it, or choose another snapshot of the table")
