"""The built-in aggregate functions by name: the types and settings each supports, and its factory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import InvalidOption
from lsmlake.extras import need
from lsmlake.lsm.aggregate import opaque, sketches
from lsmlake.lsm.aggregate.chosen import Extreme, First, Flags, Last
from lsmlake.lsm.aggregate.elements import Collect, MergeMap, MergeMapWithKeyTime
from lsmlake.lsm.aggregate.function import Function
from lsmlake.lsm.aggregate.listagg import ListAgg
from lsmlake.lsm.aggregate.nested_tables import NestedKey, NestedPartialUpdate, NestedUpdate
from lsmlake.lsm.aggregate.opaque import Union
from lsmlake.lsm.aggregate.product import Product
from lsmlake.lsm.aggregate.sums import Sum
from lsmlake.options.column_options import SETTINGS, FieldSettings
from lsmlake.types.column_types import sized_text

Make = Callable[[pa.Field, FieldSettings, str], Function]
_t = pa.types


class Builtin(NamedTuple):
    """A built-in function: `fits(type)` and its description, the settings that it reads, and its factory (field, settings,
    where)."""

    fits: Callable[[pa.DataType], bool]
    types: str
    reads: frozenset[str]
    make: Make


def _integers(type_: pa.DataType) -> bool:
    return _t.is_signed_integer(type_)


def _numbers(type_: pa.DataType) -> bool:
    return _t.is_signed_integer(type_) or _t.is_float32(type_) or _t.is_float64(type_) or _t.is_decimal128(type_)


def _ordered(type_: pa.DataType) -> bool:
    return not _t.is_nested(type_)


def _struct_list(type_: pa.DataType) -> bool:
    return _t.is_list(type_) and _t.is_struct(type_.value_type)


def _timed_map(type_: pa.DataType) -> bool:
    return _t.is_map(type_) and _t.is_struct(type_.item_type) and type_.item_type.num_fields >= 2


_INTEGERS = _integers, "an integer type"
_NUMBERS = _numbers, "an integer, float, double or decimal type"
_ORDERED = _ordered, "a sortable type"
_ANY = (lambda type_: True), "any type"
_TEXT = _t.is_string, "string"
_FLAG = _t.is_boolean, "boolean"
_BYTES = _t.is_binary, "binary"
_LIST = _t.is_list, "array"
_MAP = _t.is_map, "map"
_TABLE = _struct_list, "array of structs"
_TIMED = _timed_map, "map to structs of at least two fields"


def _fixed(function: Function) -> Make:
    return lambda field, settings, where: function


def _sum(field: pa.Field, settings: FieldSettings, where: str) -> Function:
    return Sum(where)


def _product(field: pa.Field, settings: FieldSettings, where: str) -> Function:
    return Product(field.type, where)


def _listagg(field: pa.Field, settings: FieldSettings, where: str) -> Function:
    if (text := sized_text(field)) is not None:
        raise InvalidOption(f"listagg makes texts longer than {text}", where=where, cure="make the column a STRING")
    if settings.distinct and not settings.list_agg_delimiter:
        raise InvalidOption(
            "distinct needs a delimiter between tokens", where=where, cure="set list-agg-delimiter, or distinct to false"
        )
    return ListAgg(settings.list_agg_delimiter, settings.distinct)


def _collect(field: pa.Field, settings: FieldSettings, where: str) -> Function:
    return Collect(settings.distinct)


def _keytime(field: pa.Field, settings: FieldSettings, where: str) -> Function:
    type_ = field.type.item_type
    name = type_.field(type_.num_fields - 1).name if settings.ts_field is None else settings.ts_field
    return MergeMapWithKeyTime(*_orderable(type_, (name,), "ts_field", where))


def _nested_key(field: pa.Field, settings: FieldSettings, where: str) -> NestedKey:
    for name in ("nested_key_null_strategy", "nested_sequence_field"):
        if name in settings.given() and not settings.nested_key:
            raise InvalidOption(f"{SETTINGS[name].name} needs a nested key", where=where, cure="set nested-key as well")
    numbers = _numbers_of(field.type.value_type, settings.nested_key, "nested_key", where)
    return NestedKey(numbers, settings.nested_key_null_strategy, where)


def _nested_update(field: pa.Field, settings: FieldSettings, where: str) -> Function:
    key = _nested_key(field, settings, where)
    sequence = _orderable(field.type.value_type, settings.nested_sequence_field, "nested_sequence_field", where)
    return NestedUpdate(key, sequence, settings.count_limit)


def _nested_partial_update(field: pa.Field, settings: FieldSettings, where: str) -> Function:
    if not settings.nested_key:
        raise InvalidOption("nested_partial_update needs a nested key", where=where, cure="set nested-key")
    return NestedPartialUpdate(_nested_key(field, settings, where))


def _numbers_of(type_: pa.DataType, names: Sequence[str], setting: str, where: str) -> tuple[int, ...]:
    """Returns the numbers of the struct's fields with these names. Raises InvalidOption for an unknown name."""
    present = [field.name for field in type_]
    for name in names:
        if name not in present:
            raise InvalidOption(
                f"{SETTINGS[setting].name} names an unknown field of the struct",
                where=where,
                expected=", ".join(present),
                found=repr(name),
                cure="correct the name",
            )
    return tuple(present.index(name) for name in names)


def _orderable(type_: pa.DataType, names: Sequence[str], setting: str, where: str) -> tuple[int, ...]:
    numbers = _numbers_of(type_, names, setting, where)
    for number in numbers:
        if not _ordered(type_.field(number).type):
            raise InvalidOption(
                f"{SETTINGS[setting].name} needs a field of a sortable type",
                where=where,
                found=type_.field(number),
                cure="choose a field that is not an array, map or struct",
            )
    return numbers


def _union(unite: Callable[[list[bytes]], bytes], kind: str, check: Callable[[bytes], None]) -> Make:
    return lambda field, settings, where: Union(unite, kind, where, check)


def _sketch_union(unite: Callable[[list[bytes]], bytes], kind: str) -> Make:
    def make(field: pa.Field, settings: FieldSettings, where: str) -> Function:
        need("datasketches", f"the aggregate function of {where}")  # before anything is written
        return Union(unite, kind, where)

    return make


_NOTHING: frozenset[str] = frozenset()
_OVERFLOW = frozenset({"overflow"})
_NESTED = frozenset({"nested_key", "nested_key_null_strategy"})

BUILTIN: dict[str, Builtin] = {
    "sum": Builtin(*_NUMBERS, _OVERFLOW, _sum),
    "product": Builtin(*_NUMBERS, _OVERFLOW, _product),
    "count": Builtin(*_INTEGERS, _OVERFLOW, _sum),
    "max": Builtin(*_ORDERED, _NOTHING, _fixed(Extreme(greatest=True))),
    "min": Builtin(*_ORDERED, _NOTHING, _fixed(Extreme(greatest=False))),
    "last_value": Builtin(*_ANY, _NOTHING, _fixed(Last())),
    "last_non_null_value": Builtin(*_ANY, _NOTHING, _fixed(Last(skips_nulls=True))),
    "first_value": Builtin(*_ANY, _NOTHING, _fixed(First())),
    "first_non_null_value": Builtin(*_ANY, _NOTHING, _fixed(First(skips_nulls=True))),
    "first_not_null_value": Builtin(*_ANY, _NOTHING, _fixed(First(skips_nulls=True))),
    "listagg": Builtin(*_TEXT, frozenset({"list_agg_delimiter", "distinct"}), _listagg),
    "bool_and": Builtin(*_FLAG, _NOTHING, _fixed(Flags(any_of=False))),
    "bool_or": Builtin(*_FLAG, _NOTHING, _fixed(Flags(any_of=True))),
    "collect": Builtin(*_LIST, frozenset({"distinct"}), _collect),
    "merge_map": Builtin(*_MAP, _NOTHING, _fixed(MergeMap())),
    "merge_map_with_keytime": Builtin(*_TIMED, frozenset({"ts_field"}), _keytime),
    "nested_update": Builtin(*_TABLE, _NESTED | {"nested_sequence_field", "count_limit"}, _nested_update),
    "nested_partial_update": Builtin(*_TABLE, _NESTED, _nested_partial_update),
    "rbm32": Builtin(*_BYTES, _NOTHING, _union(opaque.unite_32, opaque.KIND_32, opaque.check_32)),
    "rbm64": Builtin(*_BYTES, _NOTHING, _union(opaque.unite_64, opaque.KIND_64, opaque.check_64)),
    "hll_sketch": Builtin(*_BYTES, _NOTHING, _sketch_union(sketches.unite_hll, sketches.KIND_HLL)),
    "theta_sketch": Builtin(*_BYTES, _NOTHING, _sketch_union(sketches.unite_theta, sketches.KIND_THETA)),
    "primary_key": Builtin(*_ANY, _NOTHING, _fixed(Last(keeps_retracted=True))),
}
