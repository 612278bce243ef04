"""Merge rules under test: the options of a table, the columns beside its key, and the naive model of `engine_model`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from engine_model import Aggregate, Newest, Partial, Row, first
from strategies import KINDS as TYPES
from strategies import ROW_KINDS, VALUES, ColumnKind

KINDS = ROW_KINDS
SMALL = ColumnKind("INT", (None, 0, 1, 2, 3, 4))
SHORT = ColumnKind("ARRAY<INT>", (None, [], [0], [1, 1], [2, 0, 1], [2]))
FACTORS = ColumnKind("DECIMAL(30,3)", (None, Decimal("1.500"), Decimal("0.333"), Decimal("-1.000")))
INTS = dict.fromkeys("abcd", SMALL)
LISTS = INTS | {"d": SHORT}
EVERYTHING = {**VALUES, "stamp": TYPES["BIGINT"]}
"""Values of every sort, and a `stamp` that no two rows share."""


@dataclass(frozen=True)
class MergeSetup:
    """`kinds`: the row kinds that histories may hold."""

    options: Mapping[str, str]
    columns: Mapping[str, ColumnKind]
    fold: Callable[[Row | None, Row, str], Row | None]
    kinds: tuple[str, ...] = ("+I",)

    @property
    def ddl(self) -> str:
        """The columns beside the key."""
        return ", ".join(f"{name} {kind.ddl}" for name, kind in self.columns.items())


SETUPS = {
    "deduplicate, values of every sort": MergeSetup({}, EVERYTHING, Newest(), KINDS),
    "partial-update, values of every sort": MergeSetup(
        {"merge-engine": "partial-update"}, EVERYTHING, Partial(tuple(EVERYTHING))
    ),
    "deduplicate": MergeSetup({}, INTS, Newest(), KINDS),
    "deduplicate by sequence": MergeSetup({"sequence.field": "a,b"}, INTS, Newest(("a", "b"), retains=True), KINDS),
    "deduplicate by sequence, deletes forget": MergeSetup(
        {"sequence.field": "a,b", "sequence.delete-retained": "0 s"}, INTS, Newest(("a", "b")), KINDS
    ),
    "first-row": MergeSetup({"merge-engine": "first-row"}, INTS, first),
    "partial-update": MergeSetup({"merge-engine": "partial-update"}, INTS, Partial(("a", "b", "c", "d"))),
    "partial-update, removing": MergeSetup(
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        INTS,
        Partial(("a", "b", "c", "d"), remove_on_delete=True),
        KINDS,
    ),
    "partial-update by sequence, removing": MergeSetup(
        {"merge-engine": "partial-update", "sequence.field": "a", "partial-update.remove-record-on-delete": "true"},
        INTS,
        Partial(("a", "b", "c", "d"), remove_on_delete=True, by=("a",)),
        KINDS,
    ),
    "partial-update, groups": MergeSetup(
        {"merge-engine": "partial-update", "fields.a.sequence-group": "b", "fields.c.sequence-group": "d"},
        INTS,
        Partial(("a", "b", "c", "d"), {("a",): {"b": None}, ("c",): {"d": None}}),
        KINDS,
    ),
    "partial-update, groups removing": MergeSetup(
        {
            "merge-engine": "partial-update",
            "fields.a,b.sequence-group": "c",
            "partial-update.remove-record-on-sequence-group": "a",
        },
        INTS,
        Partial(("a", "b", "c", "d"), {("a", "b"): {"c": None}}, removing=(("a", "b"),)),
        KINDS,
    ),
    "partial-update, aggregates": MergeSetup(
        {
            "merge-engine": "partial-update",
            "fields.a.sequence-group": "b,c",
            "fields.b.aggregate-function": "sum",
        },
        INTS,
        Partial(("a", "b", "c", "d"), {("a",): {"b": "sum", "c": None}}),
        KINDS,
    ),
    "partial-update, aggregates in order": MergeSetup(
        {
            "merge-engine": "partial-update",
            "fields.a.sequence-group": "c,d",
            "fields.d.aggregate-function": "collect",
            "fields.c.aggregate-function": "first_value",
            "fields.c.ignore-retract": "true",
            "partial-update.remove-record-on-sequence-group": "a",
        },
        LISTS,
        Partial(
            ("a", "b", "c", "d"),
            {("a",): {"d": "collect", "c": "first_value"}},
            removing=(("a",),),
            ignore_retract=frozenset({"c"}),
        ),
        KINDS,
    ),
    "aggregation": MergeSetup(
        {
            "merge-engine": "aggregation",
            "fields.a.aggregate-function": "max",
            "fields.b.aggregate-function": "min",
            "fields.c.aggregate-function": "first_non_null_value",
            "fields.default-aggregate-function": "sum",
        },
        INTS,
        Aggregate({"a": "max", "b": "min", "c": "first_non_null_value", "d": "sum"}),
    ),
    "aggregation, taking back": MergeSetup(
        {
            "merge-engine": "aggregation",
            "fields.a.aggregate-function": "sum",
            "fields.b.aggregate-function": "last_value",
            "fields.c.aggregate-function": "max",
            "fields.c.ignore-retract": "true",
        },
        INTS,
        Aggregate({"a": "sum", "b": "last_value", "c": "max", "d": "last_non_null_value"}, ignore_retract=frozenset({"c"})),
        KINDS,
    ),
    "aggregation, removing": MergeSetup(
        {
            "merge-engine": "aggregation",
            "aggregation.remove-record-on-delete": "true",
            "fields.default-aggregate-function": "sum",
        },
        INTS,
        Aggregate(dict.fromkeys("abcd", "sum"), remove_on_delete=True),
        KINDS,
    ),
    "aggregation by sequence": MergeSetup(
        {
            "merge-engine": "aggregation",
            "sequence.field": "a",
            "sequence.field.sort-order": "descending",
            "fields.c.aggregate-function": "sum",
            "fields.d.aggregate-function": "collect",
        },
        LISTS,
        Aggregate({"b": "last_non_null_value", "c": "sum", "d": "collect"}, by=("a",), descending=True),
        KINDS,
    ),
    "aggregation, not in parts": MergeSetup(
        {"merge-engine": "aggregation", "fields.a.aggregate-function": "product"},
        {"a": FACTORS, "b": SMALL},
        Aggregate({"a": "product", "b": "last_non_null_value"}),
    ),
    "aggregation, lists": MergeSetup(
        {"merge-engine": "aggregation", "fields.a.aggregate-function": "collect"},
        {"a": SHORT, "b": SMALL},
        Aggregate({"a": "collect", "b": "last_non_null_value"}),
        KINDS,
    ),
}
