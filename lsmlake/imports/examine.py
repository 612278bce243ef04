"""Reads the footer of a foreign data file, decides whether a table adopts it (`adoptable`), and makes its manifest entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lsmlake.errors import Corrupt, InvalidData
from lsmlake.files.layout import stats_lengths
from lsmlake.files.parquet_facts import RESTORE, ParquetFacts, facts_of, read_footer, stats_of
from lsmlake.format.data_files import ColumnStats
from lsmlake.imports.adoptable import shape_of, why_rewritten
from lsmlake.imports.foreign import ForeignFile, Sources
from lsmlake.kernels.nested import leaf_positions, leaves
from lsmlake.schema.adapt import has_ids, lacks_ids
from lsmlake.schema.schema import Schema
from lsmlake.schema.years import are_outside, has_outside
from lsmlake.types import column_types
from lsmlake.types.type_table import is_time

_UNCUT = 1 << 31
_OUTSIDE = "column {!r} has a date or time outside the years 1 to 9999"


class Adopted(NamedTuple):
    """A file that the table adopts: its columns, and the content of its manifest entry."""

    of: ForeignFile
    shape: pa.Schema
    rows: int
    stats: Mapping[int, ColumnStats]
    footer_bytes: int
    footer_checksum: int
    by_name: bool


class RewrittenFile(NamedTuple):
    """A file whose rows are written anew, and why."""

    of: ForeignFile
    rows: int
    why: str


def examine(sources: Sources, schema: Schema, file: ForeignFile) -> Adopted | RewrittenFile | None:
    """Reads the footer of a file, and decides whether the file is adopted or rewritten; None: it has no rows. `schema`: the
    schema of the table.

    Raises Corrupt, InvalidData, StorageFailed."""
    if file.format != "parquet":
        raise InvalidData(
            "a data file is no Parquet file",
            where=file.uri,
            expected="Parquet",
            found=file.format,
            cure="rewrite the data files of the table there as Parquet, and import it again",
        )
    place = sources.outside.place(file.uri)
    footer, parsed = read_footer(place, file.bytes, file.uri)
    facts = facts_of(footer, parsed)
    if file.rows is not None and facts.rows != file.rows:
        what = "a data file has another number of rows"
        raise Corrupt(what, where=file.uri, expected=file.rows, found=facts.rows, cure=RESTORE)
    if not facts.rows:
        return None
    identified = _identified(sources, file, facts)
    _check_distinct(identified, file.uri)
    by_name = lacks_ids(facts.columns)
    own = by_name or not sources.table.by_name or has_ids(facts.columns, identified, column_types.field_ids(schema.columns))
    why = _unidentified(schema, facts.columns)
    facts = facts._replace(columns=identified, has_own_ids=own)
    why = why or why_rewritten(schema, file, facts, lambda: _with_nan(sources, schema, file, facts))
    shape = shape_of(schema, facts.columns)
    why = why or _outside_years(sources, file, facts, shape) or _elsewhere(sources, schema, file, facts, parsed)
    if why is not None:
        return RewrittenFile(file, facts.rows, why)
    first_leaf = _first_leaves(facts.columns)
    stored, wanted = _types_of(shape), _types_of(schema.columns)
    ids = schema.field_ids()
    lengths = {ids[name]: length for name, length in stats_lengths(schema).items()}
    flat = {id: lengths[id] for id, type_ in stored.items() if id in lengths and not pa.types.is_nested(type_)}
    stats = stats_of(parsed, first_leaf, flat)
    stats = {id: _of_type(one, stored[id], wanted[id]) for id, one in stats.items()}
    return Adopted(file, shape, facts.rows, stats, facts.footer_bytes, facts.footer_checksum, by_name)


def _unidentified(schema: Schema, stored: pa.Schema) -> str | None:
    """Why readers of Iceberg do not find the columns of a file; None: they find them, or need not.

    They find columns by ids. By the name mapping, PyIceberg reads no file with a column that the mapping lacks, DataFusion shows
    null for structs, and Daft reads no file."""
    if not schema.parsed_options.iceberg.enabled:
        return None
    without = next(
        (one.name for one in stored if not (column_types.has_field_id(one) and column_types.has_field_ids(one.type))), None
    )
    return None if without is None else f"column {without!r} has no field id, by which readers of Iceberg find it"


def _elsewhere(sources: Sources, schema: Schema, file: ForeignFile, facts: ParquetFacts, parsed: pq.FileMetaData) -> str | None:
    """Why a file is not in the partition that its folder names; None: it is."""
    if not sources.table.by_folder:
        return None
    first_leaf = _first_leaves(facts.columns)
    known = {id: value for id, value in file.constants.items() if id in first_leaf}
    stats = stats_of(parsed, first_leaf, dict.fromkeys(known, _UNCUT))
    unlike = [
        id
        for id, value in known.items()
        if stats.get(id) != (ColumnStats(facts.rows, None, None) if value is None else ColumnStats(0, value, value))
    ]
    names = {id: name for name, id in schema.field_ids().items()}
    return f"column {names[unlike[0]]!r} may have other values than the folder names" if unlike else None


def _identified(sources: Sources, file: ForeignFile, facts: ParquetFacts) -> pa.Schema:
    """The columns of a file, with the field ids of the table."""
    columns = sources.identified(facts.columns)
    if lacks_ids(columns):
        raise InvalidData(
            "the columns of a data file have neither field ids nor names that the table knows",
            where=file.uri,
            expected="field ids, or the property schema.name-mapping.default of the table",
            found=facts.columns.names,
            cure="set that property there, and import the table again",
        )
    return columns


def _check_distinct(columns: pa.Schema, where: str) -> None:
    """Raises InvalidData if two columns of a file are one column of the table."""
    names: dict[int, list[str]] = {}
    for field in filter(column_types.has_field_id, columns):
        names.setdefault(column_types.field_id(field), []).append(field.name)
    if twice := [same for same in names.values() if len(same) > 1]:
        raise InvalidData(
            "several columns of a data file have the same name or field id",
            where=where,
            expected="one column of the file for each column of the table",
            found=twice[0],
            cure="write the file anew without all but one of them",
        )


def _types_of(columns: pa.Schema) -> dict[int, pa.DataType]:
    return {column_types.field_id(one): column_types.plain(one.type) for one in columns}


def _of_type(stats: ColumnStats, stored: pa.DataType, wanted: pa.DataType) -> ColumnStats:
    """The statistics of a column for a table in which it has a wider type than in the file."""
    if stored == wanted:
        return stats
    low, high = (pa.scalar(value, stored).cast(wanted).as_py() for value in (stats.min, stats.max))
    return stats._replace(min=low, max=high)


def _with_nan(sources: Sources, schema: Schema, file: ForeignFile, facts: ParquetFacts) -> list[str]:
    """The columns that hold a NaN and have statistics in the file. Reads the columns for which this is not known."""
    places = zip(facts.columns, leaf_positions(facts.columns), strict=True)
    bounded = {
        column_types.field_id(one)
        for one, own in places
        if column_types.has_field_id(one) and pa.types.is_floating(one.type) and facts.leaves[own.start].bounded
    }
    asked = [one for one in schema.columns if column_types.field_id(one) in bounded - file.without_nan]
    asked = [one for one in asked if pa.types.is_floating(one.type)]
    return _read_for(sources, file, facts, asked, lambda column: pc.any(pc.is_nan(column)).as_py())


def _outside_years(sources: Sources, file: ForeignFile, facts: ParquetFacts, shape: pa.Schema) -> str | None:
    """Why a file is not adopted: a column of its `shape` has a date or time outside the years of tables. None: none has.

    Reads the columns of which the file has no statistics. The rows are written anew, which fails unless they are deleted."""
    columns = {column_types.field_id(one): one for one in shape}
    unknown: dict[int, pa.Field] = {}
    for leaf, fact in zip(leaves(facts.columns), facts.leaves, strict=True):
        field = facts.columns.field(leaf.column)
        column = columns.get(column_types.field_id(field)) if column_types.has_field_id(field) else None
        if column is None or not is_time(leaf.type):
            continue
        if fact.range is None:
            unknown[leaf.column] = column
        elif are_outside(leaf.type, *fact.range):
            return _OUTSIDE.format(column.name)
    names = _read_for(sources, file, facts, list(unknown.values()), has_outside)
    return _OUTSIDE.format(names[0]) if names else None


def _read_for(
    sources: Sources, file: ForeignFile, facts: ParquetFacts, asked: Sequence[pa.Field], has: Callable[[pa.ChunkedArray], bool]
) -> list[str]:
    """The columns of `asked` for which `has` is true. Reads these columns."""
    if not asked:
        return []
    with sources.open(file.uri, file.bytes, facts.rows, pa.schema(asked)) as reader:
        names: set[str] = set()
        for chunk in reader.chunks([one.name for one in asked]):
            names |= {name for name in chunk.table.column_names if has(chunk.table[name])}
    return sorted(names)


def _first_leaves(columns: pa.Schema) -> dict[int, int]:
    """The first leaf of each column, by field id."""
    places = zip(columns, leaf_positions(columns), strict=True)
    return {column_types.field_id(one): own.start for one, own in places if column_types.has_field_id(one)}
