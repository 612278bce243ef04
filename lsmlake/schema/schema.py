"""The schema of a table: columns with field ids, key, partitioning and options; one immutable JSON file per version."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from lsmlake.errors import Corrupt, InvalidOption, InvalidSchema, LakeError
from lsmlake.kernels.words import family
from lsmlake.options.index import BITMAP_COLUMNS, BLOOM_COLUMNS, RANGE_BITMAP_COLUMNS
from lsmlake.options.partitions import VALUES_TIME
from lsmlake.options.table_options import Options
from lsmlake.schema import envelope, types
from lsmlake.schema.defaults import WRITE, check_defaults, default_of
from lsmlake.schema.partitioning import (
    FIRST_ID,
    OBJECT,
    PartitionColumn,
    PartitionField,
    Partitioning,
    Term,
    check_fields,
    from_json,
    human_values,
    to_json,
)
from lsmlake.schema.row_text import value_text
from lsmlake.schema.shape import NAME, RESTORE, TEXT, Kind, check, integer, listing, mapping, optional
from lsmlake.schema.transform import BUCKET, IDENTITY, TRUNCATE, Transform

ROW_KIND = "_row_kind"
"""System column of level-0 files that carry deletes: int8, see `lsmlake.schema.rowkind`."""
RESERVED = "_lsmlake_"
"""The prefix of temporary columns that reads and writes add."""
ROW_KIND_FIELD = pa.field(ROW_KIND, pa.int8(), True, {types.FIELD_ID: b"2147483101"})


_KINDS = {
    "id": integer(0, 1 << 31),
    "table_uuid": NAME,
    "fields": listing(Kind("a field", lambda value: isinstance(value, dict)), 1 << 16),
    "highest_field_id": integer(0, types.FIELD_ID_MAX),
    "primary_key": listing(TEXT),
    "partition_by": listing(TEXT),
    "partitioning": OBJECT,
    "options": mapping(TEXT),
    "comment": optional(TEXT),
    "time_ms": integer(0, 1 << 53),
}


@dataclass(frozen=True)
class Schema:
    """`columns`: canonical Arrow fields with `PARQUET:field_id` at all levels, key columns not nullable.

    `table_uuid` identifies the table; a dropped table of the same name has another one. `primary_key`: column names; `options`:
    as set, as text.
    """

    id: int
    table_uuid: str
    columns: pa.Schema
    highest_field_id: int
    primary_key: tuple[str, ...]
    partitioning: Partitioning
    options: Mapping[str, str]
    comment: str | None
    time_ms: int

    @staticmethod
    def create(
        columns: pa.Schema,
        primary_key: Sequence[str],
        partition_by: Sequence[str],
        options: Mapping[str, object],
        comment: str | None,
        time_ms: int,
        table_uuid: str,
        where: str,
    ) -> Schema:
        """The first schema of a table. Raises InvalidSchema or InvalidOption; `where` names the table."""
        parsed = Options.parse(options, where, keyed=bool(primary_key))
        terms = [Term.parse(text, columns.names, where) for text in partition_by]
        keys = (*primary_key, *(term.column for term in terms))
        columns = _with_write_defaults(types.canonical_schema(columns), columns, keys, where)
        _check_names(columns, where)
        _check_are_columns("partition", [term.column for term in terms], columns, where)
        identity = [term.column for term in terms if term.transform.is_identity]
        key = [name for name in primary_key if name not in identity]
        columns = pa.schema([field.with_nullable(False) if field.name in key else field for field in columns])
        ids = itertools.count(1)
        columns = types.number_fields(columns, ids)
        fields = ((_id_of(one.column, columns), one.transform.field_name(one.column), one.transform) for one in terms)
        schema = Schema(
            0,
            table_uuid,
            columns,
            next(ids) - 1,
            tuple(primary_key),
            Partitioning.first(fields),
            {k: _as_text(v) for k, v in options.items()},
            comment,
            time_ms,
        )
        schema.check(parsed, where)
        return schema

    def successor(
        self,
        columns: pa.Schema,
        highest_field_id: int,
        primary_key: Sequence[str],
        partitioning: Partitioning,
        options: Mapping[str, object],
        id: int,
        time_ms: int,
        where: str,
    ) -> Schema:
        """The next schema of the table. Raises InvalidSchema or InvalidOption; `where` names the table."""
        parsed = Options.parse(options, where, keyed=bool(primary_key))
        _check_names(columns, where)
        made = replace(
            self,
            id=id,
            columns=columns,
            highest_field_id=highest_field_id,
            primary_key=tuple(primary_key),
            partitioning=partitioning,
            options={k: _as_text(v) for k, v in options.items()},
            time_ms=time_ms,
        )
        made.check(parsed, where)
        return made

    def check(self, options: Options, where: str) -> None:
        """Raises InvalidSchema or InvalidOption unless keys, partitions and options fit the columns."""
        _check_keys(self, where)
        _check_options(self, options, where)

    @cached_property
    def parsed_options(self) -> Options:
        return Options.parse(self.options, keyed=not self.append_only)

    @property
    def append_only(self) -> bool:
        """Whether the table has no primary key."""
        return not self.primary_key

    @property
    def merges_at_read(self) -> bool:
        """Whether files of several levels can hold rows of one key, so that a read merges them."""
        return not self.append_only and not self.parsed_options.layout.deletion_vectors

    @property
    def key(self) -> tuple[str, ...]:
        """The sort columns inside a bucket: the primary key without the columns that all rows of a partition have the same value
        of. Empty for an append-only table."""
        return tuple(name for name in self.primary_key if name not in self.identity_columns)

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The partition fields of new files as users write them, such as 'dt' or 'days(ts)'."""
        return tuple(field.term for field in self.partition_columns)

    @property
    def spec_id(self) -> int:
        """The partition spec of new files."""
        return self.partitioning.current

    @cached_property
    def all_partition_columns(self) -> tuple[PartitionColumn, ...]:
        """The partition fields of all specs."""
        return tuple(_resolved(field, self.columns) for field in self.partitioning.fields)

    @cached_property
    def _partition_columns_by_spec(self) -> dict[int, tuple[PartitionColumn, ...]]:
        known = {field.id: column for field, column in zip(self.partitioning.fields, self.all_partition_columns, strict=True)}
        return {spec.id: tuple(known[field.id] for field in spec.fields) for spec in self.partitioning.specs}

    @property
    def partition_columns(self) -> tuple[PartitionColumn, ...]:
        """The partition fields of new files."""
        return self.partition_columns_of(self.spec_id)

    def partition_columns_of(self, spec: int) -> tuple[PartitionColumn, ...]:
        """The partition fields of files of a spec, in the order of their values."""
        return self._partition_columns_by_spec[spec]

    def has_spec(self, spec: int) -> bool:
        """Whether this is a partition spec of the table. A later schema may have others."""
        return spec in self._partition_columns_by_spec

    def partition_places(self, field: PartitionColumn) -> dict[int, int]:
        """Where the values of a partition field are in the partitions of each spec that has it."""
        specs = ((spec.id, self.partition_columns_of(spec.id)) for spec in self.partitioning.specs)
        return {spec: fields.index(field) for spec, fields in specs if field in fields}

    def partition_text(self, spec: int, partition: tuple) -> str | None:
        """A partition as text, such as 'dt=2026-01-01, id_bucket=3'; None for a table without partitions. A null is shown as
        the name of its directory, and text equal to that name is quoted."""
        if not partition:
            return None
        fields, null = self.partition_columns_of(spec), self.parsed_options.layout.default_partition

        def shown(value: object) -> str:
            return null if value is None else repr(value) if value == null else value_text(value)

        values = human_values(fields, partition)
        return ", ".join(f"{field.name}={shown(value)}" for field, value in zip(fields, values, strict=True))

    @cached_property
    def identity_columns(self) -> tuple[str, ...]:
        """The columns that are partition fields themselves."""
        return tuple(field.column for field in self.partition_columns if field.transform.is_identity)

    @property
    def narrow(self) -> tuple[str, ...]:
        """A column to read when only row positions matter."""
        return self.key[:1] or tuple(self.columns.names[:1])

    @property
    def bucket_key(self) -> tuple[str, ...]:
        """The columns whose hash selects the bucket; empty if each partition has one bucket."""
        return self.parsed_options.layout.bucket_key or self.key

    @cached_property
    def plain_columns(self) -> pa.Schema:
        """The columns without ids and comments: the schema of query results."""
        return pa.schema([pa.field(f.name, types.plain(f.type), f.nullable) for f in self.columns])

    @cached_property
    def row_columns(self) -> pa.Schema:
        """The schema of rows in memory: plain and nullable, because a delete may have only its key."""
        return pa.schema([field.with_nullable(True) for field in self.plain_columns])

    @cached_property
    def types_by_id(self) -> Hashable:
        """The id and the type of each column, and the partition fields. Schemas that are equal in this give manifest entries the
        same columns."""
        columns = tuple((types.field_id(field), str(types.plain(field.type))) for field in self.columns)
        return columns, tuple((field.id, field.source, field.transform) for field in self.partitioning.fields)

    def field_ids(self) -> dict[str, int]:
        return {field.name: types.field_id(field) for field in self.columns}

    def encode(self) -> bytes:
        return envelope.wrap_json(
            "schema",
            {
                "id": self.id,
                "table_uuid": self.table_uuid,
                "fields": [types.to_json(field) for field in self.columns],
                "highest_field_id": self.highest_field_id,
                "primary_key": self.primary_key,
                "partition_by": self.partition_by,
                "partitioning": to_json(self.partitioning),
                "options": dict(self.options),
                "comment": self.comment,
                "time_ms": self.time_ms,
            },
        )

    @staticmethod
    def decode(data: bytes, where: str) -> Schema:
        """Raises Corrupt or UnsupportedFormat naming `where`."""
        content = envelope.unwrap_json("schema", data, where)
        check("schema", content, _KINDS, where, may_lack=("partitioning",))
        columns = pa.schema([types.from_json(field, where) for field in content["fields"]])
        try:
            if "partitioning" in content:
                partitioning = from_json(content["partitioning"], where)
            else:  # older files have partitions that are columns
                _check_are_columns("partition", content["partition_by"], columns, where)
                partitioning = Partitioning.first(
                    (_id_of(name, columns), name, Transform(IDENTITY)) for name in content["partition_by"]
                )
            plain = {name: content[name] for name in _KINDS if name not in ("fields", "partition_by", "partitioning")}
            key = tuple(content["primary_key"])
            schema = Schema(**plain | {"primary_key": key}, columns=columns, partitioning=partitioning)
            _check_sound(schema, content["partition_by"], where)
        except (InvalidSchema, InvalidOption) as broken:
            raise Corrupt(
                "schema is none that a table can have", where=where, expected=broken.expected, found=broken.what, cure=RESTORE
            ) from broken
        return schema


def _check_sound(schema: Schema, partition_by: Sequence[str], where: str) -> None:
    """Checks what `Schema.create` guarantees. Raises InvalidSchema, InvalidOption."""
    if types.canonical_schema(schema.columns).types != [types.plain(field.type) for field in schema.columns]:
        raise InvalidSchema("a column has a type in another form than it must", where=where)
    ids = types.field_ids(schema.columns)
    if len(set(ids)) < len(ids) or max(ids, default=0) > schema.highest_field_id:
        raise InvalidSchema("two fields have one id, or an id is above the highest", where=where)
    check_defaults(schema.columns, where)
    _check_names(schema.columns, where)
    known = {types.field_id(field) for field in schema.columns}
    if not all(field.source in known for field in schema.partitioning.fields):
        raise InvalidSchema("a partition field has no column", where=where)
    schema.check(schema.parsed_options, where)
    if tuple(partition_by) != schema.partition_by:
        expected = list(schema.partition_by)
        raise InvalidSchema("partition_by contradicts partitioning", where=where, expected=expected)


def _id_of(name: str, columns: pa.Schema) -> int:
    return types.field_id(columns.field(name))


def _resolved(field: PartitionField, columns: pa.Schema) -> PartitionColumn:
    column = next(one for one in columns if types.field_id(one) == field.source)
    type_ = types.plain(column.type)
    made = field.transform.result(type_)
    return PartitionColumn(field.id - FIRST_ID, field.name, field.transform, column.name, type_, made)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _with_write_defaults(columns: pa.Schema, given: pa.Schema, keys: Sequence[str], where: str) -> pa.Schema:
    """The columns of a new table with the write defaults that the metadata of the given fields have."""
    fields = []
    for field, old in zip(columns, given, strict=True):
        if (text := (old.metadata or {}).get(WRITE)) is not None:
            if field.name in keys:
                raise InvalidSchema("a key or partition column cannot have a default", where=where, found=field.name)
            field = field.with_metadata({**(field.metadata or {}), WRITE: text})
            check_defaults([field], where)
            if not field.nullable and not default_of(field, WRITE).is_valid:
                raise InvalidSchema("null is no default of a NOT NULL column", where=where, found=field.name)
        fields.append(field)
    return pa.schema(fields)


def _check_names(columns: pa.Schema, where: str) -> None:
    if not len(columns):
        raise InvalidSchema("a table needs at least one column", where=where, cure="add columns")
    seen: dict[str, str] = {}
    for name in columns.names:
        if not name.strip():
            raise InvalidSchema("a column name is blank", where=where, found=repr(name), cure="name the column")
        if name.lower() in seen:
            raise InvalidSchema(
                "two columns have the same name (case does not tell them apart in Spark)",
                where=where,
                found=f"{seen[name.lower()]!r} and {name!r}",
                cure="rename one",
            )
        if name.lower() == ROW_KIND or name.lower().startswith(RESERVED):
            raise InvalidSchema(
                f"the column name {name!r} is reserved",
                where=where,
                expected=f"no {ROW_KIND!r} and nothing that begins with {RESERVED!r}",
                cure="rename the column",
            )
        seen[name.lower()] = name


def _near(name: str, names: Sequence[str]) -> str:
    by_lower = {known.lower(): known for known in names}
    near = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    return f"did you mean {by_lower[near[0]]!r}?" if near else "correct the name"


def _check_are_columns(role: str, names: Sequence[str], columns: pa.Schema, where: str) -> None:
    for name in names:
        _check_known(name, columns, InvalidSchema, f"{role} column {name!r} is not in the schema", where)
        types.check_orderable(columns.field(name).type, name)


def _check_keys(schema: Schema, where: str) -> None:
    primary_key, columns = schema.primary_key, schema.columns
    if len(set(primary_key)) != len(primary_key):
        raise InvalidSchema("a primary key column is named twice", where=where, found=list(primary_key), cure="name it once")
    _check_are_columns("primary key", primary_key, columns, where)
    check_fields(schema.partition_columns, columns.names, where)
    if not primary_key:
        return
    outside = [field.column for field in schema.partition_columns if field.column not in primary_key]
    if outside:
        raise InvalidSchema(
            "the primary key must contain the partition columns: all rows of a key must be in one partition",
            where=where,
            found=f"{outside} outside of it",
            cure="add them to the primary key, or partition by columns of the key",
        )
    if not schema.key:
        raise InvalidSchema(
            "the primary key is nothing but partition columns",
            where=where,
            found=list(primary_key),
            cure="a partition would hold one row: partition by fewer columns",
        )


def _check_indexed(columns: pa.Schema, options: Options, where: str) -> None:
    index = options.index
    for option, names in (
        (BLOOM_COLUMNS, index.bloom_columns),
        (BITMAP_COLUMNS, index.bitmap_columns),
        (RANGE_BITMAP_COLUMNS, index.range_bitmap_columns),
    ):
        for name in names:
            _check_is_column(option, name, columns, where)
            if family(columns.field(name).type) is None:
                raise InvalidOption(
                    f"{option} {name!r} has a type without equality that an index could use",
                    where=where,
                    found=columns.field(name).type,
                    cure="name a column that is no struct, list or map",
                )
    if twice := sorted({*index.bitmap_columns} & {*index.range_bitmap_columns}):
        raise InvalidOption(
            f"{BITMAP_COLUMNS} and {RANGE_BITMAP_COLUMNS} name the same columns, and are the same index",
            where=where,
            found=twice,
            cure="name a column in one of them",
        )


def _check_options(schema: Schema, options: Options, where: str) -> None:
    columns, primary_key, key = schema.columns, schema.primary_key, schema.key
    if not primary_key:
        _check_append_options(columns, schema.identity_columns, options, where)
    bucket_key = options.layout.bucket_key
    for name in bucket_key:
        if primary_key and name not in key:
            raise InvalidOption(
                f"bucket-key column {name!r} is not in the primary key less the partition columns",
                where=where,
                expected=f"some of {list(key)}",
                cure="a key must always fall into one bucket: choose columns of the key",
            )
    if len(set(bucket_key)) != len(bucket_key):
        raise InvalidOption("bucket-key names a column twice", where=where, found=bucket_key, cure="name it once")
    _check_time_field(columns, options, where)
    _check_partition_expiry(schema.partition_columns, options, where)
    _check_indexed(columns, options, where)
    for name in options.changelog.ignored_columns:
        _check_is_column("changelog-producer.row-deduplicate-ignore-fields", name, columns, where)
    options.columns.check_columns(columns.names, primary_key, where)
    if options.write.rowkind_field is not None:
        _check_is_column("rowkind.field", options.write.rowkind_field, columns, where)
        if not pa.types.is_string(columns.field(options.write.rowkind_field).type):
            raise InvalidOption(
                f"rowkind.field {options.write.rowkind_field!r} must be a string column",
                where=where,
                found=columns.field(options.write.rowkind_field).type,
                cure="store '+I', '-U', '+U' or '-D' as text",
            )
        if options.write.rowkind_field in primary_key:
            raise InvalidOption(
                f"rowkind.field {options.write.rowkind_field!r} is a key column", where=where, cure="use a column outside the key"
            )


def _check_append_options(columns: pa.Schema, partition_by: Sequence[str], options: Options, where: str) -> None:
    """The checks of options that name columns of an append-only table."""
    for name in options.layout.bucket_key:
        _check_is_column("bucket-key", name, columns, where)
        types.check_orderable(columns.field(name).type, name)
        if name in partition_by:
            raise InvalidOption(
                f"bucket-key column {name!r} is a partition column",
                where=where,
                cure="all rows of a partition have the same value: choose another column",
            )
    if options.layout.buckets > 1 and not options.layout.bucket_key:
        raise InvalidOption(
            "several buckets need a bucket-key: the table has no primary key whose hash could select the bucket",
            where=where,
            found=f"bucket = {options.layout.buckets}",
            cure="set bucket-key, or leave bucket out",
        )
    clustered = options.appends.clustering_columns
    for name in clustered:
        _check_is_column("clustering.columns", name, columns, where)
        types.check_orderable(columns.field(name).type, name)
    if len(set(clustered)) < len(clustered):
        raise InvalidOption(
            "clustering.columns names a column twice", where=where, found=list(clustered), cure="name each column once"
        )


def _check_is_column(option: str, name: str, columns: pa.Schema, where: str) -> None:
    _check_known(name, columns, InvalidOption, f"{option} {name!r} is not a column", where)


def _check_known(name: str, columns: pa.Schema, error: type[LakeError], what: str, where: str) -> None:
    """Raises this error unless there is a column of the name."""
    if name not in columns.names:
        raise error(what, where=where, expected=f"one of {columns.names}", cure=_near(name, columns.names))


def _check_partition_expiry(fields: Sequence[PartitionColumn], options: Options, where: str) -> None:
    """Raises InvalidOption unless the options of partition expiry fit the partition fields."""
    if options.partitions.expiration_ms is None:
        return
    if not fields:
        raise InvalidOption(
            "partition.expiration-time has no effect: the table has no partitions",
            where=where,
            cure="leave the option out; record-level.expire-time expires single rows",
        )
    pattern = options.partitions.pattern
    named = re.findall(r"\$(\w+)", pattern or "")
    names = [field.name for field in fields]
    if pattern is not None and not any(text.startswith(name) for text in named for name in names):
        raise InvalidOption(
            "partition.timestamp-pattern names no partition column",
            where=where,
            expected=" or ".join(f"${name}" for name in names),
            found=pattern,
            cure="correct the pattern",
        )
    first, tells_time = fields[0], any(field.transform.is_time for field in fields)
    by_values = options.partitions.strategy == VALUES_TIME and pattern is None
    if by_values and not tells_time and first.transform.name in (BUCKET, TRUNCATE) and first.type != pa.string():
        raise InvalidOption(
            "partition.expiration-time has no effect: no partition field tells a time",
            where=where,
            expected="years, months, days or hours of a column, or a first field that holds a time",
            found=first.term,
            cure="partition by such a field, or set partition.expiration-strategy to update-time",
        )


def _check_time_field(columns: pa.Schema, options: Options, where: str) -> None:
    name = options.retention.row_time_field
    if name is None:
        return
    _check_is_column("record-level.time-field", name, columns, where)
    type_ = columns.field(name).type
    if not (pa.types.is_int32(type_) or pa.types.is_int64(type_) or pa.types.is_timestamp(type_)):
        raise InvalidOption(
            f"record-level.time-field {name!r} does not tell a time",
            where=where,
            expected="INT (seconds), BIGINT (seconds or milliseconds) or a timestamp",
            found=type_,
            cure="use another column",
        )
