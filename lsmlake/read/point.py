"""Reads the rows of given primary keys: few keys by lookups, many keys by a scan of the files that can hold them.

A lookup finds the positions of a key in the files of its bucket, then reads those rows only:

0. With a cache on disk (`files.row_copies`), a key that is not at level 0 is found with its row in one read. What follows is for
   keys of which there is no such copy.
1. Each key has one bucket, or one in each partition if it can move between these. The files of a bucket, their footers, key
   columns and vectors are cached, so that a lookup that was preceded by others reads nothing but the pages of its row.
2. With deletion vectors, a key that is not at level 0 is live in at most one file, and that row is the answer.
3. The rows of any other key, at level 0 and deeper, are merged as a scan merges them, under every merge engine. Without vectors,
   the rows of a key in several files are merged, too.

`lookups_are_cheaper` chooses between lookups and a scan, by estimates of their time: both work in as many threads.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from math import exp, prod
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.errors import Corrupt
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.files.retained import Retained
from lsmlake.files.row_copies import RowCopies
from lsmlake.format.data_files import Bucket, BucketState, DataFile, VectorRef
from lsmlake.format.deletion_vector import EMPTY, DeletionVector
from lsmlake.kernels.bucket_hash import hash_of_one, spark_hash
from lsmlake.kernels.keys import comparable, is_one_number
from lsmlake.kernels.sorted_keys import Key, searched
from lsmlake.lsm.cover import partition_codes, route
from lsmlake.lsm.levels import recency
from lsmlake.lsm.lookup import in_batches, search_among
from lsmlake.lsm.merge.merge_errors import located
from lsmlake.lsm.merge.rule import MergeRule, OldRow, merge_runs
from lsmlake.lsm.merge.rules import rule_of
from lsmlake.predicate import Predicate, and_, key_values
from lsmlake.predicate.tree import Column, Compare, In, IsNull, Literal, or_
from lsmlake.read.arrow_scan import filtered, finished, read_chosen, read_plan, read_unfinished
from lsmlake.read.fallback import homes
from lsmlake.read.plan import Plan, Projection, plan
from lsmlake.schema.rowkind import with_kinds, without_deletes
from lsmlake.schema.schema import ROW_KIND, Schema
from lsmlake.storage.concurrency import ahead, side_by_side
from lsmlake.tables.version import Version
from lsmlake.types.column_types import has_sized_text


def rows_of_keys(version: Version, keys: pa.Table, columns: Sequence[str] | None = None, *, copying: bool = False) -> pa.Table:
    """Returns the rows of `keys` (conformed primary key columns) in the order of the keys, without duplicates. Keys without a row
    are skipped. `columns`: in the order of the schema, among them the key; None: all. `copying`: whether rows are copied to the
    cache on disk, for later lookups."""
    names = version.schema.shown if columns is None else list(columns)
    fields = pa.schema([version.schema.plain_columns.field(name) for name in names])
    if not keys.num_rows:
        return fields.empty_table()
    rows = pa.concat_tables([fields.empty_table(), *(table.cast(fields) for table in _tables(version, keys, names, copying))])
    if keys.num_rows == 1:
        return rows
    chosen = matches(keys, rows)
    chosen = chosen[chosen >= 0]
    _, first = np.unique(chosen, return_index=True)
    return rows.take(pa.array(chosen[np.sort(first)]))


def matches(keys: pa.Table, rows: pa.Table) -> np.ndarray:
    """The number of the row of each key; -1: there is none. `rows`: with the columns of `keys`; each key has one row at most."""
    wanted, stored = _codes(keys, rows)
    order = np.argsort(stored)
    places = np.searchsorted(stored[order], wanted)
    numbers = np.full(len(wanted), -1)
    inside = np.flatnonzero(places < len(stored))
    hit = inside[stored[order][places[inside]] == wanted[inside]]
    numbers[hit] = order[places[hit]]
    return numbers


def row_of_key(version: Version, key: pa.Table) -> dict[str, object] | None:
    """Returns the row of one key as Python values; None if there is none."""
    tables = _tables(version, key, version.schema.shown, copying=True)
    return next((table.to_pylist()[0] for table in tables if table.num_rows), None)


def row_of_plain_key(version: Version, key: Mapping[str, object]) -> list[dict[str, object]] | None:
    """The row of a key of integers and texts, one or none; None for a key that only `row_of_key` can look up. Takes a part of the
    time of that: no value passes through Arrow before there is a row."""
    schema, columns = version.schema, version.schema.derived(_plain_key_columns)
    if not columns or len(key) != len(columns) or version.fallback is not None:
        return None
    values = []
    for column in columns:
        value = key.get(column.name)
        if not column.takes(value):
            return None
        values.append(value)
    if version.snapshot is None:
        return []
    values = tuple(values)
    hash_ = routing = hash_of_one(values, [column.type for column in columns])
    if schema.bucket_key != schema.key:
        routing = hash_of_one(
            [key[name] for name in schema.bucket_key], [schema.columns.field(n).type for n in schema.bucket_key]
        )
    try:
        finder = _finder(version, routing)
        return [] if finder is None else finder.row(Key(values, values), hash_)
    except Corrupt:
        with version.unless_expired():
            raise


def _finder(version: Version, routing: int) -> _Finder | None:
    """The finder of a row of all columns in the bucket of a key; None if the bucket has no files. Cached: a single key passes
    little else. Only for a table without partitions. `routing`: the unsigned hash of the bucket key."""
    meta, schema, cache = version.meta, version.schema, version.meta.files.cache
    known = meta.paths.snapshots, version.snapshot.delta_manifest_list.name, meta.paths.table_uuid, schema.id
    cover = cache.known((known, "cover"))
    if cover is None:
        cover = version.covers().of((schema.spec_id, ()))
        cache.put((known, "cover"), cover)
    number = cover.number_of_one(routing)
    finder = cache.known((known, number))
    if finder is None:
        bucket = Bucket((), number, schema.spec_id)
        if bucket not in (states := _states(version, (bucket,))):
            return None
        finder = _Finder(version, states[bucket], schema.shown, True)
        cache.put((known, number), finder, lambda finder: _FINDER_BYTES + 8 * len(finder.ordered))
    return finder


class _PlainColumn(NamedTuple):
    """A key column of integers from `least` to `greatest`, or of texts if `kind` is str."""

    name: str
    type: pa.DataType
    kind: type
    least: int
    greatest: int

    def takes(self, value: object) -> bool:
        """Whether Python's value is one of the column as it is."""
        return type(value) is self.kind and (value.isascii() if self.kind is str else self.least <= value <= self.greatest)


def _plain_key_columns(schema: Schema) -> list[_PlainColumn]:
    """The columns of `Schema.key`; none if keys are not only integers and texts, or have partitions, or if a
    lookup may cost more than a scan."""
    fields = [schema.columns.field(name) for name in schema.key]
    plain = all(pa.types.is_signed_integer(one.type) or (one.type == pa.string() and not has_sized_text(one)) for one in fields)
    if not plain or schema.partition_columns or schema.moves_keys or any(map(pa.types.is_nested, schema.columns.types)):
        return []
    return list(map(_plain_column, fields))


def _plain_column(field: pa.Field) -> _PlainColumn:
    if field.type == pa.string():
        return _PlainColumn(field.name, field.type, str, 0, 0)
    greatest = (1 << field.type.bit_width - 1) - 1
    return _PlainColumn(field.name, field.type, int, -1 - greatest, greatest)


def read_keys(version: Version, projection: Projection) -> Iterator[pa.Table] | None:
    """Reads a projection whose predicate names whole keys by lookups, and applies the predicate to the rows that are found.
    Returns None if the predicate does not name keys, or if a scan is cheaper."""
    keys = _named_keys(version, projection)
    if keys is None:
        return None
    planned = []
    for one, some in homes(version, keys):
        with one.unless_expired():
            planned.append((one, lookups(one, some)))
        if planned[-1][1] is None:
            return None
    return chain.from_iterable(_projected(one, few, projection) for one, few in planned)


def _projected(version: Version, planned: Sequence[Lookup], projection: Projection) -> Iterator[pa.Table]:
    with version.unless_expired():
        for table in rows_by_lookup(version, planned, projection.needed or projection.schema.key[:1], copying=True):
            yield finished(filtered(table, projection), projection)


def _named_keys(version: Version, projection: Projection) -> pa.Table | None:
    """All keys that rows of a projection can have; None if the predicate does not limit the keys, or if there are too many."""
    schema = projection.schema
    values = None if projection.predicate is None else key_values(projection.predicate, schema.primary_key)
    total_rows = sum(
        one.snapshot.total_rows for one in (version, version.fallback) if one is not None and one.snapshot is not None
    )
    if values is None or not 0 < prod(map(len, values.values())) <= total_rows:
        return None
    arrays = [pa.array(values[name], schema.plain_columns.field(name).type) for name in schema.primary_key]
    places = np.indices([len(array) for array in arrays]).reshape(len(arrays), -1)
    return pa.table([array.take(pa.array(at)) for array, at in zip(arrays, places, strict=True)], names=list(schema.primary_key))


def _tables(version: Version, keys: pa.Table, columns: Sequence[str], copying: bool) -> Iterable[pa.Table]:
    return [table for one, some in homes(version, keys) for table in _tables_of(one, some, columns, copying)]


def _tables_of(version: Version, keys: pa.Table, columns: Sequence[str], copying: bool) -> Iterable[pa.Table]:
    with version.unless_expired():
        few = lookups(version, keys)
        if few is not None:
            return list(rows_by_lookup(version, few, columns, copying=copying))
        if keys.num_rows <= LISTED and not version.schema.moves_keys:
            return list(read_plan(plan(version, _predicate(keys, version.schema), columns)))
        return list(_joined(version, keys, columns))


def _joined(version: Version, keys: pa.Table, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of many keys, by a scan of the files that can hold them; perhaps also others with their values of `Schema.key`."""
    schema = version.schema
    indexed = not {*schema.parsed_options.index.columns}.isdisjoint(schema.primary_key)
    covering = pruning(keys, schema, _LISTED_FOR_INDEX if indexed else LISTED)
    reads = replace(plan(version, covering, columns), predicate=_between(keys, schema))
    yield from rows_with_keys(reads, keys.select(schema.key))


def rows_with_keys(reads: Plan, keys: pa.Table) -> Iterator[pa.Table]:
    """Returns the rows of a plan that have one of many keys. `keys`: some columns of the plan, without nulls and NaN. Reads all
    rows of the plan, but decodes only the texts of the keys and of the rows found."""
    names = keys.column_names
    if is_one_number(keys.schema.types):
        search = search_among(np.sort(comparable([keys])[0]))
        return read_chosen(reads, lambda table: _flags(table, search(comparable([table.select(names)])[0])[1]))
    return _with_keys_in_batches(reads, keys)


def _with_keys_in_batches(reads: Plan, keys: pa.Table) -> Iterator[pa.Table]:
    for tables in in_batches(read_unfinished(reads), lambda table: table.num_rows, max(keys.num_rows, JOINED_ROWS)):
        wanted, *stored = comparable([keys, *(table.select(keys.column_names) for table in tables)])
        search = search_among(np.sort(wanted))
        for table, scalars in zip(tables, stored, strict=True):
            # of a table in many chunks, `take` takes longer
            yield finished(table.filter(pa.array(_flags(table, search(scalars)[1]))), reads)


def _flags(table: pa.Table, places: np.ndarray) -> np.ndarray:
    """Flags the rows of a table at these places."""
    flags = np.zeros(table.num_rows, bool)
    flags[places] = True
    return flags


def pruning(keys: pa.Table, schema: Schema, most: int) -> Predicate:
    """A predicate that is true of all keys: it lists them or, if there are more than `most`, limits each column by its least and
    greatest value."""
    return _predicate(keys, schema) if keys.num_rows <= most else _between(keys, schema)


def _between(keys: pa.Table, schema: Schema) -> Predicate:
    """A predicate that is true of all keys and of those between them."""
    parts = []
    for name in schema.key:
        column, ends = Column((name,), schema.plain_columns.field(name).type), pc.min_max(keys[name]).as_py()
        parts += [Compare(">=", column, Literal(ends["min"])), Compare("<=", column, Literal(ends["max"]))]
    return and_(*parts)


def _predicate(keys: pa.Table, schema: Schema) -> Predicate:
    """Returns a predicate that is true of all `keys`; with several key columns it may match other keys as well."""
    return and_(*(_is_in(keys[name], Column((name,), schema.plain_columns.field(name).type)) for name in schema.primary_key))


def _is_in(values: pa.ChunkedArray, column: Column) -> Predicate:
    distinct = values.unique()
    valid = distinct.drop_null().to_pylist()
    return or_(*([In(column, tuple(valid))] if valid else []), *([IsNull(column)] if distinct.null_count else []))


def _codes(keys: pa.Table, rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Returns one number per row of both tables; equal keys, including nulls, have equal numbers."""
    code = np.zeros(keys.num_rows + rows.num_rows, np.int64)
    for name in keys.column_names:
        values = pa.chunked_array([*keys[name].chunks, *rows[name].chunks], keys.schema.field(name).type)
        encoded = values.combine_chunks().dictionary_encode(null_encoding="encode")
        _, code = np.unique(code * len(encoded.dictionary) + np.asarray(encoded.indices), return_inverse=True)
    return code[: keys.num_rows], code[keys.num_rows :]


# -- lookups -----------------------------------------------------------------------------------------------------------

LISTED, _LISTED_FOR_INDEX = 10_000, 100_000
"""The most keys that a scan compares one by one, or that the indexes of files are asked for."""
JOINED_ROWS = 1 << 20
"""The fewest rows that are compared with keys at once."""
_CELL_BYTES = 400  # of Python objects for one value of a one-row table
_FINDER_BYTES = 1_000  # without the state of the bucket, which is cached for itself


class Lookup(NamedTuple):
    """The keys to look up in one bucket, with their unsigned hashes, and the state of the bucket."""

    state: BucketState
    keys: Mapping[Key, int]


def lookups(version: Version, keys: pa.Table) -> list[Lookup] | None:
    """Chooses how distinct keys are read: the lookups; None if a scan of the files that can hold them is cheaper."""
    schema = version.schema
    columns, nested = len(schema.columns), any(map(pa.types.is_nested, schema.columns.types))
    places = len(version.partitions()) if schema.moves_keys else 1
    if not lookups_are_cheaper(keys.num_rows * places, KeyedFiles(version.snapshot.total_rows, 0, columns, nested)):
        return None
    by_bucket = _in_all_partitions(version, keys) if schema.moves_keys else _by_bucket(version, keys)
    states = _states(version, by_bucket)
    planned = [Lookup(states[bucket], by_bucket[bucket]) for bucket in by_bucket if bucket in states]
    files = [file for lookup in planned for file in lookup.state.files]
    paged = sum(file.rows for file in files if file.bytes > version.meta.env.limits.stream_buffer_bytes)
    searched_files = KeyedFiles(sum(file.rows for file in files), paged, columns, nested)
    return planned if lookups_are_cheaper(keys.num_rows * places, searched_files) else None


def rows_by_lookup(
    version: Version, planned: Sequence[Lookup], columns: Sequence[str], *, copying: bool = False
) -> Iterator[pa.Table]:
    """Reads the rows of the keys, in any order, nullable. `columns`: in the order of the schema. `copying`: as in
    `rows_of_keys`."""
    parts = (_Finder(version, lookup.state, tuple(columns), copying).rows(lookup.keys) for lookup in planned)
    return ahead(parts, version.meta.env.workers if len(planned) > 1 else 1)


def _by_bucket(version: Version, keys: pa.Table) -> dict[Bucket, dict[Key, int]]:
    schema = version.schema
    routed = route(keys, schema, version.covers())
    buckets = {code: routed.bucket(code) for code in np.unique(routed.codes).tolist()}
    keys_by_bucket: dict[Bucket, dict[Key, int]] = {}  # distinct keys, in order
    for key, hash_, code in zip(searched(keys.select(schema.key)), _hashes(keys, schema), routed.codes.tolist(), strict=True):
        keys_by_bucket.setdefault(buckets[code], {})[key] = hash_
    return keys_by_bucket


def _hashes(keys: pa.Table, schema: Schema) -> list[int]:
    """The hashes by which copied rows are found."""
    return spark_hash([keys[name] for name in schema.key]).view(np.uint32).tolist()


def _in_all_partitions(version: Version, keys: pa.Table) -> dict[Bucket, dict[Key, int]]:
    """As `_by_bucket`, for keys that can lie in several partitions: each is looked up in all of them."""
    schema, covers = version.schema, version.covers()
    hashes = spark_hash([keys[name] for name in schema.bucket_key])
    own = list(zip(searched(keys.select(schema.key)), _hashes(keys, schema), strict=True))
    codes, homes = partition_codes(keys, schema.of_keys)
    codes = np.zeros(keys.num_rows, np.int64) if codes is None else codes
    rows = {home: np.flatnonzero(codes == code) for code, home in enumerate(homes)}
    by_bucket: dict[Bucket, dict[Key, int]] = {}
    for spec, partition in version.partitions():
        inside = rows.get(schema.home(spec, partition), ())
        numbers = covers.of((spec, partition)).number_of(hashes[inside]) if len(inside) else ()
        for row, number in zip(inside, numbers, strict=True):
            key, hash_ = own[row]
            by_bucket.setdefault(Bucket(partition, int(number), spec), {})[key] = hash_
    return by_bucket


def _states(version: Version, buckets: Mapping[Bucket, object]) -> dict[Bucket, BucketState]:
    """The states of the buckets that have files; cached."""
    cache = version.meta.files.cache
    known = version.snapshot.delta_manifest_list.name, version.meta.paths.table_uuid, version.schema.id
    states_by_bucket = {bucket: cache.known((known, bucket)) for bucket in buckets}
    missing = [bucket for bucket, states in states_by_bucket.items() if states is None]
    if missing:
        read = version.states(missing, statistics=False)
        for bucket in missing:
            states_by_bucket[bucket] = tuple(read[one] for one in (bucket,) if one in read)
            cache.put((known, bucket), states_by_bucket[bucket])
    return {bucket: states[0] for bucket, states in states_by_bucket.items() if states}


class _PointHits(NamedTuple):
    file: DataFile
    positions: list[int]


class _Finder:
    """Finds rows in one bucket."""

    def __init__(self, version: Version, state: BucketState, columns: tuple[str, ...], copying: bool) -> None:
        self.columns = columns
        self.files, self.state = BucketFiles.of(version, state.bucket), state
        self.vectors = version.options.layout.deletion_vectors
        self.ordered = sorted(state.files, key=lambda file: (recency(file), file.min_key))
        self.copies = RowCopies.of(self.files, making=copying) if self.vectors else None

    def rows(self, keys: Mapping[Key, int]) -> Generator[pa.Table]:
        if self.copies is None:
            yield from self._rows(keys)
            return
        copied, others = [], []
        for key, hash_ in keys.items():
            row = self.copied(key, hash_)
            if row is None:
                others.append(key)
            else:
                copied += row
        if copied:
            yield self._table(copied)
        if others:
            yield from self._rows(others)

    def row(self, key: Key, hash_: int) -> list[dict[str, object]]:
        """The row of a key, of all columns; none if the key is absent."""
        copied = None if self.copies is None else self.copied(key, hash_)
        if copied is not None:
            return [dict(zip(self.columns, values, strict=True)) for values in copied]
        hits = self._hits(key, rule_of(self.files.schema, self.files.meta.paths.root))
        if not hits:
            return []
        values = self._values_at(hits[0], key) if self._is_answer(hits) else None
        return [values] if values is not None else [row for table in self._rows([key]) for row in table.to_pylist()]

    def _values_at(self, hit: _PointHits, key: Key) -> dict[str, object] | None:
        """The row at a hit, cached as in `_row_at`; None if it cannot be read value by value."""
        others = [name for name in self.columns if name not in self.files.schema.key]
        cache, place = self.files.meta.files.cache, (self.files.meta.paths.data(hit.file), self.files.schema.id, hit.positions[0])
        values = cache.known(place)
        if values is None:
            values = self.files.values_at(hit.file, hit.positions[0], others)
            if values is None:
                return None
            cache.put(place, values, lambda values: _CELL_BYTES * len(values))
        by_name = dict(zip([*self.files.schema.key, *others], [*key.values, *values], strict=True))
        return {name: by_name[name] for name in self.columns}

    def copied(self, key: Key, hash_: int) -> list[tuple] | None:
        """The row of a key (of all columns; none if the key is absent) by copies; None if these do not tell."""
        for file in self.ordered:
            if not file.min_key <= key.values <= file.max_key:
                continue
            if not file.level:
                if self.files.positions(key, file):
                    return None
                continue
            rows = self.copies.find(key, hash_, file)
            if rows is None:
                return None
            if rows:
                vector = vector_of(self.files, self.state.vectors, file)
                for row in rows:
                    if row.position not in vector:
                        return [row.values]
        return []

    def _table(self, rows: Sequence[tuple]) -> pa.Table:
        schema = self.files.schema
        by_name = dict(zip(schema.columns.names, zip(*rows, strict=True), strict=True))
        fields = [schema.row_columns.field(name) for name in self.columns]
        return pa.table([pa.array(by_name[field.name], field.type) for field in fields], schema=pa.schema(fields))

    def _rows(self, keys: Collection[Key]) -> Generator[pa.Table]:
        schema = self.files.schema
        rule = rule_of(schema, self.files.meta.paths.root)
        single: dict[str, list[int]] = {}
        several: dict[str, list[int]] = {}
        for key in keys:
            hits = self._hits(key, rule)
            chosen = single if self._is_answer(hits) else several
            for file, positions in hits:
                chosen.setdefault(file.name, []).extend(positions)
        by_name, read = {file.name: file for file in self.ordered}, self._row_at if len(keys) == 1 else self.files.rows_at
        for name, positions in single.items():
            yield read(by_name[name], sorted(positions), self.columns)
        if several:
            yield self._merged(several, rule)

    def _row_at(self, file: DataFile, positions: Sequence[int], columns: tuple[str, ...]) -> pa.Table:
        """One row, cached: a row that was looked up is often looked up again, and is far smaller than the pages it is in."""
        key = self.files.meta.paths.data(file), self.files.schema.id, positions[0], columns
        read = partial(self.files.rows_at, file, positions, columns)
        return self.files.meta.files.cache.get(key, read, lambda row: row.get_total_buffer_size() + _CELL_BYTES * len(columns))

    def _is_answer(self, hits: Sequence[_PointHits]) -> bool:
        """Whether no merge is needed, because there is one row, it is of kind +I, and no retained delete can ignore it."""
        if len(hits) != 1 or len(hits[0].positions) != 1 or (self.state.retained and not hits[0].file.level):
            return False
        return not hits[0].file.delete_rows or (self.vectors and hits[0].file.level > 0)

    def _hits(self, key: Key, rule: MergeRule) -> list[_PointHits]:
        """The places of the rows of a key from which its current row is made, newest file first."""
        reached = [file for file in self.ordered if file.min_key <= key.values <= file.max_key]
        if self.files.meta.env.storage.at_once > 1:  # caches the data of all files that the search may need
            side_by_side([partial(self._open, key, file) for file in reached], self.files.meta.env.storage.at_once)
        if not self.vectors:
            hits_by_file = (_PointHits(file, self.files.positions(key, file)) for file in reached)
            return [hits for hits in hits_by_file if hits.positions]
        hits = []
        for file in reached:
            if file.level and hits and rule.old_row is OldRow.REPLACED:
                break
            positions = self.files.positions(key, file)
            if file.level and positions:
                vector = vector_of(self.files, self.state.vectors, file)
                positions = [position for position in positions if position not in vector]
            if positions:
                hits.append(_PointHits(file, positions))
                if file.level:
                    break
        return hits

    def _open(self, key: Key, file: DataFile) -> None:
        vector = partial(vector_of, self.files, self.state.vectors, file) if self.vectors and file.level else lambda: EMPTY
        side_by_side([partial(self.files.positions, key, file), vector], self.files.meta.env.storage.at_once)

    def _merged(self, positions: Mapping[str, Sequence[int]], rule: MergeRule) -> pa.Table:
        """Merges the rows at `positions`."""
        wanted = rule.needs({*self.columns, *self.files.schema.key})
        runs, names = [], [name for name in self.files.schema.columns.names if name in wanted]
        oldest_first = list(reversed([file for file in self.ordered if file.name in positions]))
        tables = {
            file.name: self.files.rows_at(file, sorted(positions[file.name]), [*names, ROW_KIND] if file.delete_rows else names)
            for file in oldest_first
        }
        level0 = [file for file in oldest_first if not file.level]
        settlement = Retained.of(self.files, self.state.retained, rule).settlement(level0, lambda file: tables[file.name])
        for _, files in groupby(oldest_first, key=recency):
            parts = [settlement.live(file, tables[file.name]) for file in reversed(list(files))]
            runs.append(pa.concat_tables(with_kinds(parts)))
        with located(self.files.meta.paths.root, self.state.bucket):
            return without_deletes(merge_runs(runs, self.files.schema.key, rule)).select(list(self.columns))


def vector_of(files: BucketFiles, vectors: Mapping[str, VectorRef], file: DataFile) -> DeletionVector:
    """The vector of a file, cached. `vectors`: by file name."""
    ref = vectors.get(file.name)
    if ref is None:
        return EMPTY
    cache, key = files.meta.files.cache, (files.meta.paths.puffin(ref.puffin), ref.offset)
    vector = cache.known(key)
    if vector is None:
        vector = files.meta.vectors.get(ref, file)
        cache.put(key, vector, lambda vector: 512 + 4 * len(vector))
    return vector


_KEY_US = 15.0  # finds a key
_PAGE_US = 70.0  # reads, decompresses and decodes a value of a page
_PAGE_ROWS = 6_500  # of a wide column; narrow ones have more
_PLAN_US = 8_000.0  # of a scan
_VALUE_US = 0.012  # decodes a value in a scan
_GROUP_ROWS = 1 << 17


class KeyedFiles(NamedTuple):
    """The files that can hold the keys. `rows`: the rows of all files; `paged`: the rows of the files that are not kept in memory
    as a whole. `columns`: the number of columns of the table; `nested`: whether one of them is nested, so that row groups must be
    read."""

    rows: int
    paged: int
    columns: int
    nested: bool


def lookups_are_cheaper(keys: int, files: KeyedFiles) -> bool:
    """Whether lookups of distinct keys take less time than a scan of the files that filters by them."""
    return _lookups_us(keys, files) <= _PLAN_US + files.rows * files.columns * _VALUE_US


def _lookups_us(keys: int, files: KeyedFiles) -> float:
    if not files.paged:
        return keys * _KEY_US
    paged_keys = keys * files.paged / files.rows
    if files.nested:
        decoded = min(paged_keys * _GROUP_ROWS, files.paged) * files.columns
        return keys * _KEY_US + decoded * _VALUE_US
    pages = files.paged / _PAGE_ROWS
    return keys * _KEY_US + files.columns * pages * (1 - exp(-paged_keys / pages)) * _PAGE_US  # several keys share a page
