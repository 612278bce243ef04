"""The schema of a table: columns with field ids, key, partitioning and options; one immutable JSON file per version."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import pyarrow as pa

from lsmlake.errors import Corrupt, InvalidOption, InvalidSchema, Wording
from lsmlake.options.merge_options import AGGREGATION, PARTIAL_UPDATE
from lsmlake.options.table_options import Options
from lsmlake.schema import envelope
from lsmlake.schema.checks import check_are_columns, check_keys, check_options
from lsmlake.schema.defaults import WRITE, check_defaults, default_of
from lsmlake.schema.kept_query import KeptQuery, check_kept_options
from lsmlake.schema.moving import check_moving
from lsmlake.schema.partitioning import (
    FIRST_ID,
    OBJECT,
    PartitionColumn,
    PartitionField,
    Partitioning,
    Term,
    from_json,
    human_values,
    to_json,
)
from lsmlake.schema.transform import IDENTITY, Transform
from lsmlake.schema.values import value_text
from lsmlake.types import column_types
from lsmlake.types.column_types import has_sized_text
from lsmlake.types.json_shape import FLAG, NAME, RESTORE, TEXT, JsonKind, check, integer, listing, mapping, optional
from lsmlake.types.type_table import TABLE

Value = TypeVar("Value")
_VERSION_WITH_LENGTHS = 2
"""The version of a schema file with a VARCHAR(n) or CHAR(n)."""
_VERSION_WITH_VIEW = envelope.VIEW_TABLES
"""The version of a schema file of a view table."""
ROW_KIND = "_row_kind"
"""System column of level-0 files that carry deletes: int8, see `lsmlake.schema.rowkind`."""
UNPARTITIONED = Wording(
    "pass partition_by=[]: the table then has no partitions",
    command="add --unpartitioned: the table then has no partitions",
)
"""The cure for an import that cannot keep the partitions."""
RESERVED = "_lsmlake_"
"""The prefix of temporary columns that reads and writes add."""
ROW_KIND_FIELD = pa.field(ROW_KIND, pa.int8(), True, {column_types.FIELD_ID: b"2147483101"})
ROW_ADDRESS = f"{RESERVED}row_address"
"""System column of data files: the number of the file times 2^32, plus the position of the row. A reader that has no other way to
tell positions finds deleted rows by it."""
ROW_ADDRESS_FIELD = pa.field(ROW_ADDRESS, pa.int64(), False, {column_types.FIELD_ID: b"2147483102"})
POSITION_BITS = 32
"""Of a row address: those of the position in the file."""


_KINDS = {
    "id": integer(0, 1 << 31),
    "table_uuid": NAME,
    "fields": listing(JsonKind("a field", lambda value: isinstance(value, dict)), 1 << 16),
    "highest_field_id": integer(0, column_types.FIELD_ID_MAX),
    "primary_key": listing(TEXT),
    "partition_by": listing(TEXT),
    "partitioning": OBJECT,
    "options": mapping(TEXT),
    "comment": optional(TEXT),
    "time_ms": integer(0, 1 << 53),
    "by_name": FLAG,
    "view": OBJECT,
}


@dataclass(frozen=True)
class Schema:
    """`columns`: canonical Arrow fields with `PARQUET:field_id` at all levels, key columns not nullable.

    `table_uuid` identifies the table; a dropped table of the same name had another one. `primary_key`: column names. `options`:
    the options that were set, as text. `by_name`: adopted files of this schema may lack field ids; their columns are found by
    name. `by_key`: partition fields of other columns than those of the key are ignored, see `of_keys`; never stored. `view`: the
    query of a view table; None: an ordinary table.
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
    by_name: bool = False
    by_key: bool = False
    view: KeptQuery | None = None

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
        view: KeptQuery | None = None,
    ) -> Schema:
        """The first schema of a table. Raises InvalidSchema or InvalidOption; `where` names the table."""
        parsed = Options.parse(options, where, keyed=bool(primary_key))
        terms = [Term.parse(text, columns.names, where) for text in partition_by]
        keys = (*primary_key, *(term.column for term in terms))
        columns = _with_write_defaults(column_types.canonical_schema(columns), columns, keys, where)
        _check_new_names(columns, where, hidden=view is not None)
        check_are_columns("partition", [term.column for term in terms], columns, where)
        identity = [term.column for term in terms if term.transform.is_identity]
        key = [name for name in primary_key if name not in identity]
        columns = pa.schema([field.with_nullable(False) if field.name in key else field for field in columns])
        ids = itertools.count(1)
        columns = column_types.number_fields(columns, ids)
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
            view=view,
        )
        schema.check(parsed, where)
        return schema

    @staticmethod
    def adopted(
        columns: pa.Schema,
        primary_key: Sequence[str],
        partitioning: Partitioning,
        options: Mapping[str, object],
        comment: str | None,
        time_ms: int,
        table_uuid: str,
        where: str,
        highest_field_id: int,
    ) -> Schema:
        """The first schema of a table whose columns and partition fields have ids already. Raises InvalidSchema or InvalidOption;
        `where` names the table."""
        parsed = Options.parse(options, where, keyed=bool(primary_key))
        column_types.canonical_schema(columns)  # refuses types that no column has
        _check_new_names(columns, where)
        if not all(0 < id <= column_types.FIELD_ID_MAX for id in column_types.field_ids(columns)):
            expected = f"1 to {column_types.FIELD_ID_MAX}"
            raise InvalidSchema("a column has a field id that no column can have", where=where, expected=expected)
        text = {name: _as_text(value) for name, value in options.items()}
        schema = Schema(0, table_uuid, columns, highest_field_id, tuple(primary_key), partitioning, text, comment, time_ms)
        if primary_key and len(partitioning.specs) > 1:
            raise InvalidSchema(
                "a table with a primary key has one partition spec: all rows of a key must be in one partition",
                where=where,
                found=f"files of {len(partitioning.specs)} specs",
                cure=UNPARTITIONED,
            )
        schema.check(parsed, where)
        required = pa.schema([field.with_nullable(False) if field.name in schema.key else field for field in columns])
        return replace(schema, columns=required)

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
        _check_new_names(columns, where, hidden=self.view is not None)
        schema = replace(
            self,
            id=id,
            columns=columns,
            highest_field_id=highest_field_id,
            primary_key=tuple(primary_key),
            partitioning=partitioning,
            options={k: _as_text(v) for k, v in options.items()},
            time_ms=time_ms,
            by_name=False,
        )
        schema.check(parsed, where)
        return schema

    def check(self, options: Options, where: str) -> None:
        """Raises InvalidSchema or InvalidOption unless keys, partitions and options fit the columns."""
        check_keys(self.columns, self.primary_key, self.key, self.partition_columns, where)
        check_options(self.columns, self.primary_key, self.key, self.partition_columns, options, where)
        if self.moves_keys:
            check_moving(self.moving_columns, options, where)
        if self.view is not None:
            check_kept_options(options, where)

    @cached_property
    def parsed_options(self) -> Options:
        return Options.parse(self.options, keyed=not self.append_only)

    @property
    def append_only(self) -> bool:
        """Whether the table has no primary key."""
        return not self.primary_key

    @property
    def combines_rows(self) -> bool:
        """Whether the merge rule combines the rows of a key. Then a default counts once for each row of the key."""
        return self.parsed_options.merge.engine in (PARTIAL_UPDATE, AGGREGATION)

    @property
    def merges_at_read(self) -> bool:
        """Whether files of several levels can hold rows of one key, so that a read merges them."""
        return not self.append_only and not self.parsed_options.layout.deletion_vectors

    @cached_property
    def moving_columns(self) -> tuple[str, ...]:
        """The columns of partition fields that are not in the primary key: their values choose the partition of a key."""
        if not self.primary_key:
            return ()
        names = {id: name for name, id in self.field_ids().items()}
        columns = dict.fromkeys(names[field.source] for field in self.partitioning.spec.fields)
        return tuple(name for name in columns if name not in self.primary_key)

    @property
    def moves_keys(self) -> bool:
        """Whether a key can move from one partition to another."""
        return not self.by_key and bool(self.moving_columns)

    @cached_property
    def of_keys(self) -> Schema:
        """This schema with only the partition fields of key columns: all rows of a key are in one of these partitions."""
        return replace(self, by_key=True)

    def home(self, spec: int, partition: tuple) -> tuple:
        """The values of a partition that a key cannot leave: its partition by `of_keys`."""
        fields = zip(self.partition_columns_of(spec), partition, strict=True)
        return tuple(value for field, value in fields if field.column in self.primary_key)

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The sort columns inside a bucket: the primary key without columns that are constant within a partition. Empty for an
        append-only table."""
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
        by_spec = {spec.id: tuple(known[field.id] for field in spec.fields) for spec in self.partitioning.specs}
        if not self.by_key:
            return by_spec
        return {id: tuple(field for field in some if field.column in self.primary_key) for id, some in by_spec.items()}

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
        """Maps each spec that has a partition field to the position of the field in the partition values."""
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
        """The columns that are partition fields without a transform."""
        return tuple(field.column for field in self.partition_columns if field.transform.is_identity)

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """The names of the columns that a read without a list of columns gives: all but the hidden ones of a view table."""
        return tuple(name for name in self.columns.names if self.view is None or not name.startswith(RESERVED))

    @cached_property
    def shown_fields(self) -> pa.Schema:
        """The fields of `columns` that users see."""
        return self.columns if self.view is None else pa.schema([self.columns.field(name) for name in self.shown])

    @cached_property
    def shown_columns(self) -> pa.Schema:
        """The columns that users see, as `typed_columns`."""
        return self.typed_columns if self.view is None else pa.schema([self.typed_columns.field(name) for name in self.shown])

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
        """The columns without ids, comments and lengths: the schema of query results."""
        return pa.schema([pa.field(f.name, column_types.plain(f.type), f.nullable) for f in self.columns])

    @cached_property
    def typed_columns(self) -> pa.Schema:
        """The columns without ids and comments, with the lengths of their texts: the columns that statements and conditions
        see."""
        return pa.schema([column_types.with_lengths(f) for f in self.columns])

    @cached_property
    def row_columns(self) -> pa.Schema:
        """The schema of rows in memory: plain and nullable, because a delete may have only its key."""
        return pa.schema([field.with_nullable(True) for field in self.plain_columns])

    @cached_property
    def types_by_id(self) -> Hashable:
        """The id and the type of each column, and the partition fields. Schemas that are equal in this give manifest entries the
        same columns."""
        columns = tuple((column_types.field_id(field), str(column_types.plain(field.type))) for field in self.columns)
        return columns, tuple((field.id, field.source, field.transform) for field in self.partitioning.fields)

    def field_ids(self) -> dict[str, int]:
        return {field.name: column_types.field_id(field) for field in self.columns}

    def derived(self, make: Callable[[Schema], Value]) -> Value:
        """The value of `make(self)`, made once: for values that rooms below this one derive from a schema."""
        known = self._derived.get(make)
        return self._derived.setdefault(make, make(self)) if known is None else known

    @cached_property
    def _derived(self) -> dict[Callable, object]:
        return {}

    def __getstate__(self) -> dict[str, object]:
        """Without `_derived`, which tasks of Spark derive again."""
        return {name: value for name, value in self.__dict__.items() if name != "_derived"}

    def encode(self) -> bytes:
        return envelope.wrap_json(
            "schema",
            version=max(*map(_version, self.columns), _VERSION_WITH_VIEW if self.view is not None else 1),
            content={
                "id": self.id,
                "table_uuid": self.table_uuid,
                "fields": [column_types.to_json(field) for field in self.columns],
                "highest_field_id": self.highest_field_id,
                "primary_key": self.primary_key,
                "partition_by": self.partition_by,
                "partitioning": to_json(self.partitioning),
                "options": dict(self.options),
                "comment": self.comment,
                "time_ms": self.time_ms,
                **({"by_name": True} if self.by_name else {}),
                **({"view": self.view.to_json()} if self.view is not None else {}),
            },
        )

    @staticmethod
    def decode(data: bytes, where: str) -> Schema:
        """Parses a schema file. Raises Corrupt or UnsupportedFormat naming `where`."""
        content = envelope.unwrap_json("schema", data, where)
        check("schema", content, _KINDS, where, may_lack=("partitioning", "by_name", "view"))
        columns = pa.schema([column_types.from_json(field, where) for field in content["fields"]])
        try:
            if "partitioning" in content:
                partitioning = from_json(content["partitioning"], where)
            else:  # older schema files list partition columns instead of specs
                check_are_columns("partition", content["partition_by"], columns, where)
                partitioning = Partitioning.first(
                    (_id_of(name, columns), name, Transform(IDENTITY)) for name in content["partition_by"]
                )
            plain = {name: content[name] for name in _KINDS if name in content}
            plain = {name: value for name, value in plain.items() if name not in ("fields", "partition_by", "partitioning")}
            key = tuple(content["primary_key"])
            view = KeptQuery.from_json(plain.pop("view"), where) if "view" in plain else None
            schema = Schema(**plain | {"primary_key": key, "view": view}, columns=columns, partitioning=partitioning)
            _check_sound(schema, content["partition_by"], where)
        except (InvalidSchema, InvalidOption) as broken:
            raise Corrupt(
                "schema is none that a table can have", where=where, expected=broken.expected, found=broken.what, cure=RESTORE
            ) from broken
        return schema


def _check_sound(schema: Schema, partition_by: Sequence[str], where: str) -> None:
    """Checks the guarantees of `Schema.create`. Raises InvalidSchema, InvalidOption."""
    if column_types.canonical_schema(schema.columns).types != [column_types.plain(field.type) for field in schema.columns]:
        raise InvalidSchema("a column has a type in another form than it must", where=where)
    ids = column_types.field_ids(schema.columns)
    if len(set(ids)) < len(ids) or max(ids, default=0) > schema.highest_field_id:
        raise InvalidSchema("two fields have one id, or an id is above the highest", where=where)
    check_defaults(schema.columns, where)
    _check_names(schema.columns, where, hidden=schema.view is not None)
    known = {column_types.field_id(field) for field in schema.columns}
    if not all(field.source in known for field in schema.partitioning.fields):
        raise InvalidSchema("a partition field has no column", where=where)
    schema.check(schema.parsed_options, where)
    if tuple(partition_by) != schema.partition_by:
        expected = list(schema.partition_by)
        raise InvalidSchema("partition_by contradicts partitioning", where=where, expected=expected)


def _id_of(name: str, columns: pa.Schema) -> int:
    return column_types.field_id(columns.field(name))


def _resolved(field: PartitionField, columns: pa.Schema) -> PartitionColumn:
    column = next(one for one in columns if column_types.field_id(one) == field.source)
    type_ = column_types.plain(column.type)
    result_type = field.transform.result(type_)
    return PartitionColumn(field.id - FIRST_ID, field.name, field.transform, column.name, type_, result_type)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _with_write_defaults(columns: pa.Schema, given: pa.Schema, keys: Sequence[str], where: str) -> pa.Schema:
    """The columns of a new table with the write defaults from the metadata of the given fields."""
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


def _check_new_names(columns: pa.Schema, where: str, *, hidden: bool = False) -> None:
    """Checks names of a new schema only: older tables may have names that are refused here. `hidden`: see `_check_names`."""
    _check_names(columns, where, hidden=hidden)
    if (name := next((name for name in columns.names if "\0" in name), None)) is not None:  # DuckDB ends a name there
        raise InvalidSchema("a column name has a NUL character", where=where, found=repr(name), cure="rename the column")


def _version(column: pa.Field) -> int:
    """The first version of schema files that may have the column."""
    of_types = [row.version for row in TABLE if column_types.any_inside(column.type, row.arrow.__eq__)]
    return max(1, *of_types, _VERSION_WITH_LENGTHS if has_sized_text(column) else 1)


def _check_names(columns: pa.Schema, where: str, *, hidden: bool = False) -> None:
    """Raises InvalidSchema for names that columns cannot have. `hidden`: names of hidden columns are allowed."""
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
        if name.lower() == ROW_KIND or (name.lower().startswith(RESERVED) and not hidden):
            raise InvalidSchema(
                f"the column name {name!r} is reserved",
                where=where,
                expected=f"no {ROW_KIND!r} and nothing that begins with {RESERVED!r}",
                cure="rename the column",
            )
        seen[name.lower()] = name
