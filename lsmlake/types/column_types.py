"""The column types: Spark's types as Arrow types in one canonical form, with field ids.

Canonical types: string, binary, list, map, struct, decimal128, date32, timestamp[us] without zone or in UTC. `canonical` converts
other types (large or view types, dictionaries, other units); `with_ids` numbers the fields at all levels; `to_json` and
`from_json` convert to and from the form in a schema file.

VARCHAR(n) and CHAR(n) are STRING with a length, which the metadata of a field says. The length counts characters. A written text
may be longer only by blanks at its end, which are cut. CHAR(n) is padded with blanks to its length. So a stored value always has
its form, and readers take it for text. `kernels.fitting` fits values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import Corrupt, InvalidSchema
from lsmlake.types.json_shape import FLAG, RESTORE, TEXT, JsonKind, check, integer, listing, shown
from lsmlake.types.type_table import BY_NAME, column_type, holding, is_time, named

FIELD_ID = b"PARQUET:field_id"
COMMENT = b"comment"
INITIAL_DEFAULT, WRITE_DEFAULT = DEFAULTS = b"initial_default", b"write_default"
"""Metadata of a field with a default, as JSON; see `lsmlake.schema.defaults`."""
FIELD_ID_MAX = 2147483000
"""Greater ids belong to system columns."""
NESTING_MAX = 30
"""Levels of ARRAY, MAP (counts twice) and STRUCT inside one column: Parquet C++ fails for types that are much deeper."""


def has_map(type_: pa.DataType) -> bool:
    """Whether the type is a map or has one inside."""
    return any_inside(type_, pa.types.is_map)


def has_times(type_: pa.DataType) -> bool:
    """Whether the type is a date or a time, or has one inside."""
    return any_inside(type_, is_time)


def has_struct(type_: pa.DataType) -> bool:
    """Whether the type is a struct or has one inside."""
    return any_inside(type_, pa.types.is_struct)


def any_inside(type_: pa.DataType, matches: Callable[[pa.DataType], bool]) -> bool:
    """Whether `matches` is true of the type or of one inside."""
    return matches(type_) or any(any_inside(type_.field(i).type, matches) for i in range(type_.num_fields))


def canonical(type_: pa.DataType, column: str) -> pa.DataType:
    """Returns the column type that holds all values of `type_`. Raises InvalidSchema naming `column` if there is none."""
    t = pa.types
    if t.is_dictionary(type_):
        return canonical(type_.value_type, column)
    if t.is_struct(type_):
        if not type_.num_fields:
            raise InvalidSchema("a struct needs at least one field", where=f"column {column!r}", cure="leave the column out")
        names = [field.name.lower() for field in type_]
        if len(set(names)) != len(names):
            raise InvalidSchema(
                "two fields have the same name (case does not tell them apart in Spark)",
                where=f"column {column!r}",
                found=[field.name for field in type_],
                cure="rename one",
            )
        return pa.struct([_canonical_field(field, f"{column}.{field.name}") for field in type_])
    if t.is_map(type_):
        key = _canonical_field(type_.key_field, f"{column}.key").with_name("key").with_nullable(False)
        return pa.map_(key, _canonical_field(type_.item_field, f"{column}.value").with_name("value"))
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        return pa.list_(_canonical_field(type_.value_field, f"{column}.element").with_name("element"))
    if (row := holding(type_)) is not None:
        return row.arrow
    raise InvalidSchema(
        "unsupported column type",
        where=f"column {column!r}",
        expected=f"{', '.join(BY_NAME)}, DECIMAL(p,s), STRUCT, ARRAY or MAP",
        found=type_,
        cure=_CURES.get(str(type_), "convert the column first"),
    )


_NO_INTERVALS = "tables do not hold INTERVALs: cast them to STRING or BIGINT"
_CURES = {
    "uint8": "use int16: Spark has no unsigned integers",
    "uint16": "use int32: Spark has no unsigned integers",
    "uint32": "use int64: Spark has no unsigned integers",
    "uint64": "use decimal(20, 0): Spark has no unsigned integers",
    "halffloat": "use float",
    "null": "give the column a type",
    "duration[us]": _NO_INTERVALS,
    "month_day_nano_interval": _NO_INTERVALS,
}


def _canonical_field(field: pa.Field, column: str) -> pa.Field:
    type_ = canonical(field.type, column)
    metadata = {k: v for k, v in (field.metadata or {}).items() if k in (COMMENT, TEXT_TYPE)}
    if TEXT_TYPE in metadata and not (pa.types.is_string(type_) and sized_text(field)):
        raise InvalidSchema(
            "the metadata text_type of a field is not the type of its texts",
            where=f"column {column!r}",
            expected="VARCHAR(n) or CHAR(n), for a string",
            found=f"{metadata[TEXT_TYPE]!r}, for {type_}",
            cure="correct the metadata, or leave it out",
        )
    return pa.field(field.name, type_, field.nullable, metadata or None)


def canonical_schema(schema: pa.Schema) -> pa.Schema:
    """Converts all columns to canonical types; keeps comments and lengths, drops other metadata. Raises InvalidSchema."""
    for field in schema:
        _check_depth(field)
    return pa.schema([_canonical_field(field, field.name) for field in schema])


def _check_depth(field: pa.Field) -> None:
    """Raises InvalidSchema for a type that is nested too deeply for Parquet. Iterates by level, so it never recurses too
    deeply."""
    level = [field.type]
    for _ in range(NESTING_MAX + 1):
        level = [inner.field(i).type for inner in level if pa.types.is_nested(inner) for i in range(inner.num_fields)]
    if level:
        raise InvalidSchema(
            "the type is nested too deeply",
            where=f"column {field.name!r}",
            expected=f"at most {NESTING_MAX} levels of ARRAY, MAP (counts twice) and STRUCT",
            cure="store the value as JSON in a STRING, or flatten it",
        )


def plain(type_: pa.DataType) -> pa.DataType:
    """Returns `type_` without the ids, comments and lengths of nested fields, for comparisons and casts."""
    t = pa.types
    if t.is_struct(type_):
        return pa.struct([pa.field(f.name, plain(f.type), f.nullable) for f in type_])
    if t.is_map(type_):
        return pa.map_(
            pa.field("key", plain(type_.key_type), False), pa.field("value", plain(type_.item_type), type_.item_field.nullable)
        )
    if t.is_list(type_):
        return pa.list_(pa.field("element", plain(type_.value_type), type_.value_field.nullable))
    return type_


def with_lengths(field: pa.Field) -> pa.Field:
    """Returns `field` with no other metadata, at any level, than the lengths of texts."""
    metadata = {k: v for k, v in (field.metadata or {}).items() if k == TEXT_TYPE}
    inside = inner_fields(field.type)
    type_ = with_inner_fields(field.type, [with_lengths(one) for one in inside]) if inside else field.type
    return pa.field(field.name, type_, field.nullable, metadata or None)


def with_lengths_of(field: pa.Field, declared: pa.Field) -> pa.Field:
    """Returns `field` with the lengths of the texts of `declared`, which has an equal type but for them."""
    inside = [with_lengths_of(*both) for both in zip(inner_fields(field.type), inner_fields(declared.type), strict=True)]
    made = field.with_type(with_inner_fields(field.type, inside)) if inside else field
    return with_sized_text(made, sized_text(declared))


def has_field_id(field: pa.Field) -> bool:
    return FIELD_ID in (field.metadata or {})


def has_field_ids(type_: pa.DataType) -> bool:
    """Whether all fields inside a type have an id."""
    return all(has_field_id(field) and has_field_ids(field.type) for field in inner_fields(type_))


def field_id(field: pa.Field) -> int:
    return int(field.metadata[FIELD_ID])


def field_ids(fields: Iterable[pa.Field]) -> list[int]:
    """Returns the ids of the fields and of all nested fields."""
    level, ids = list(fields), []
    while level:
        ids += map(field_id, level)
        level = [inner for field in level for inner in inner_fields(field.type)]
    return ids


def inner_fields(type_: pa.DataType) -> tuple[pa.Field, ...]:
    """Returns the fields directly inside a canonical type."""
    if pa.types.is_map(type_):
        return type_.key_field, type_.item_field
    return tuple(type_.field(i) for i in range(type_.num_fields)) if pa.types.is_nested(type_) else ()


def with_inner_fields(type_: pa.DataType, fields: Sequence[pa.Field]) -> pa.DataType:
    """Returns a nested type of the same kind with other fields inside."""
    if pa.types.is_struct(type_):
        return pa.struct(list(fields))
    return pa.map_(*fields) if pa.types.is_map(type_) else pa.list_(*fields)


def _numbered(field: pa.Field, ids: Iterator[int]) -> pa.Field:
    metadata = {**(field.metadata or {}), FIELD_ID: str(next(ids)).encode()}
    return pa.field(field.name, with_ids(field.type, ids), field.nullable, metadata)


def with_ids(type_: pa.DataType, ids: Iterator[int]) -> pa.DataType:
    """Returns the canonical `type_` with a new id for each nested field."""
    t = pa.types
    if t.is_struct(type_):
        return pa.struct([_numbered(f, ids) for f in type_])
    if t.is_map(type_):
        return pa.map_(_numbered(type_.key_field, ids), _numbered(type_.item_field, ids))
    if t.is_list(type_):
        return pa.list_(_numbered(type_.value_field, ids))
    return type_


def number_fields(schema: pa.Schema, ids: Iterator[int]) -> pa.Schema:
    """Returns `schema` with a new id for each field at all levels (Parquet requires ids on all fields or none)."""
    return pa.schema([_numbered(field, ids) for field in schema])


def type_name(type_: pa.DataType) -> str:
    """Returns the Spark SQL name of a canonical primitive type, as used in schema files, manifests and messages."""
    row = column_type(type_)
    return str(type_) if row is None else row.name


def is_name_of_type(name: object) -> bool:
    return isinstance(name, str) and (row := named(name)) is not None and row.name == name


def type_of(name: str) -> pa.DataType:
    """The inverse of `type_name`. Raises KeyError."""
    if (row := named(name)) is None:
        raise KeyError(name)
    return row.arrow


def to_json(field: pa.Field) -> dict:
    type_, t = field.type, pa.types
    if t.is_struct(type_):
        described: object = {"type": "struct", "fields": [to_json(f) for f in type_]}
    elif t.is_map(type_):
        described = {"type": "map", "key": to_json(type_.key_field), "value": to_json(type_.item_field)}
    elif t.is_list(type_):
        described = {"type": "list", "element": to_json(type_.value_field)}
    else:
        described = str(sized_text(field) or type_name(type_))
    out = {"id": field_id(field), "name": field.name, "type": described, "nullable": field.nullable}
    if comment := field.metadata.get(COMMENT):
        out["comment"] = comment.decode()
    return out | {name.decode(): json.loads(text) for name in DEFAULTS if (text := field.metadata.get(name)) is not None}


def _is_described(value: object) -> bool:
    return is_name_of_type(value) or isinstance(value, dict) or (isinstance(value, str) and SizedText.parse(value) is not None)


_TYPE = JsonKind("the name of a type, or an object", _is_described)
_VALUE = JsonKind("a value", lambda value: value is None or isinstance(value, (bool, int, str)))
_FIELD = {"id": integer(1, FIELD_ID_MAX), "name": TEXT, "type": _TYPE, "nullable": FLAG, "comment": TEXT} | {
    name.decode(): _VALUE for name in DEFAULTS
}
_INNER = JsonKind("a field", lambda value: isinstance(value, dict))
_NESTED = {
    "struct": {"fields": listing(_INNER)},
    "map": {"key": _INNER, "value": _INNER},
    "list": {"element": _INNER},
}


def from_json(content: dict, where: str, depth: int = 0) -> pa.Field:
    """Converts the result of `to_json` to a field. Raises Corrupt naming `where`."""
    check("field", content, _FIELD, where, may_lack=["comment", *(name.decode() for name in DEFAULTS)])
    described = content["type"]
    text = SizedText.parse(described) if isinstance(described, str) else None
    if text is not None:
        type_ = pa.string()
    elif isinstance(described, str):
        type_ = type_of(described)
    else:
        name = described.get("type")
        inner = _NESTED.get(name) if isinstance(name, str) and depth <= NESTING_MAX else None
        if inner is None:
            expected = f"{', '.join(_NESTED)} in at most {NESTING_MAX} levels"
            raise Corrupt("field has an unknown type", where=where, expected=expected, found=shown(described), cure=RESTORE)
        check(name, described, {"type": TEXT, **inner}, where)
        parts = described["fields"] if name == "struct" else [described[part] for part in inner]
        fields = [from_json(part, where, depth + 1) for part in parts]
        type_ = {"struct": pa.struct, "map": lambda both: pa.map_(*both), "list": lambda one: pa.list_(one[0])}[name](fields)
    metadata = {FIELD_ID: str(content["id"]).encode()}
    if "comment" in content:
        metadata[COMMENT] = content["comment"].encode()
    if text is not None:
        metadata[TEXT_TYPE] = str(text).encode()
    metadata |= {name: json.dumps(content[name.decode()]).encode() for name in DEFAULTS if name.decode() in content}
    return pa.field(content["name"], type_, content["nullable"], metadata)


def check_orderable(type_: pa.DataType, column: str) -> None:
    """Raises InvalidSchema naming `column` for a nested type: keys and partitions must be sortable."""
    if pa.types.is_nested(type_):
        raise InvalidSchema(
            "a key or partition column needs a sortable type",
            where=f"column {column!r}",
            expected=f"{', '.join(BY_NAME)} or DECIMAL(p,s)",
            found=type_,
            cure="use a field of it as a separate column",
        )


# -- text with a length -----------------------------------------------------------------------------------------------


TEXT_TYPE = b"text_type"
"""Metadata of a STRING field with a length, such as b"VARCHAR(3)"."""
VARCHAR, CHAR = "VARCHAR", "CHAR"
LENGTH_MAX = (1 << 31) - 1
_WORDS = re.compile(rf"({VARCHAR}|{CHAR})\((0|[1-9][0-9]{{0,9}})\)")


class SizedText(NamedTuple):
    """A type of text with a length. `name`: VARCHAR or CHAR."""

    name: str
    length: int

    def __str__(self) -> str:
        return f"{self.name}({self.length})"

    @staticmethod
    def parse(words: str) -> SizedText | None:
        """The type with this name; None for other text."""
        match = _WORDS.fullmatch(words)
        return SizedText(match[1], int(match[2])) if match and int(match[2]) <= LENGTH_MAX else None


def sized_text(field: pa.Field) -> SizedText | None:
    """The type of a STRING field with a length; None for other fields."""
    words = (field.metadata or {}).get(TEXT_TYPE)
    return None if words is None else SizedText.parse(words.decode())


def char_length(field: pa.Field | None) -> int | None:
    """The length of a CHAR(n); None for other fields."""
    text = None if field is None else sized_text(field)
    return text.length if text is not None and text.name == CHAR else None


def with_sized_text(field: pa.Field, text: SizedText | None) -> pa.Field:
    """Returns `field` with this length; None: with none."""
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != TEXT_TYPE}
    return field.with_metadata(metadata if text is None else {**metadata, TEXT_TYPE: str(text).encode()})


def has_sized_text(field: pa.Field) -> bool:
    """Whether a field, or one inside of it, has a length."""
    return sized_text(field) is not None or any(map(has_sized_text, inner_fields(field.type)))


def widens_text(old: pa.Field, new: pa.Field) -> bool:
    """Whether each stored value of the STRING field `old` is one of `new`, as in Spark: a CHAR(n) stays padded to n."""
    before, after = sized_text(old), sized_text(new)
    if after is None or before == after:
        return True
    return before is not None and after.name == VARCHAR and before.length <= after.length
