"""What drivers ask about the server and its SQL: `CommandGetSqlInfo`. The numbers are those of the enumeration `SqlInfo`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lsmlake import __version__
from lsmlake.serve.serve_settings import ServeSettings

_TEXT, _BOOL, _LONG, _INT, _TEXTS, _MAP = range(6)
_KINDS = {str: _TEXT, bool: _BOOL, int: _INT}
_VALUES = pa.dense_union(
    [
        pa.field("string_value", pa.string()),
        pa.field("bool_value", pa.bool_()),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", pa.int32()),
        pa.field("string_list", pa.list_(pa.field("item", pa.string()))),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.field("item", pa.int32())))),
    ]
)
SCHEMA = pa.schema([pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", _VALUES, nullable=False)])


def facts(settings: ServeSettings) -> Mapping[int, str | bool | int]:
    """The facts, by their numbers."""
    return {
        0: "lsmlake",  # FLIGHT_SQL_SERVER_NAME
        1: __version__,
        2: pa.__version__,
        3: not settings.writes,  # FLIGHT_SQL_SERVER_READ_ONLY
        4: True,  # FLIGHT_SQL_SERVER_SQL
        5: False,  # FLIGHT_SQL_SERVER_SUBSTRAIT
        8: 0,  # FLIGHT_SQL_SERVER_TRANSACTION: none
        9: False,  # FLIGHT_SQL_SERVER_CANCEL: no action cancels; a client ends the call that fetches the rows
        10: settings.writes,  # FLIGHT_SQL_SERVER_BULK_INGESTION
        11: False,  # FLIGHT_SQL_SERVER_INGEST_TRANSACTIONS_SUPPORTED
        100: 0,  # FLIGHT_SQL_SERVER_STATEMENT_TIMEOUT: a prepared statement stays until others take its place
        500: False,  # SQL_DDL_CATALOG
        501: settings.writes,  # SQL_DDL_SCHEMA
        502: settings.writes,  # SQL_DDL_TABLE
        504: "`",  # SQL_IDENTIFIER_QUOTE_CHAR
        506: True,  # SQL_ALL_TABLES_ARE_SELECTABLE
        513: "\\",  # SQL_SEARCH_STRING_ESCAPE
        515: True,  # SQL_SUPPORTS_COLUMN_ALIASING
        516: True,  # SQL_NULL_PLUS_NULL_IS_NULL
        518: True,  # SQL_SUPPORTS_TABLE_CORRELATION_NAMES
        520: True,  # SQL_SUPPORTS_EXPRESSIONS_IN_ORDER_BY
        524: True,  # SQL_SUPPORTS_NON_NULLABLE_COLUMNS
        529: "database",  # SQL_SCHEMA_TERM
        530: "procedure",  # SQL_PROCEDURE_TERM
        531: "",  # SQL_CATALOG_TERM: a name has no catalog
        532: False,  # SQL_CATALOG_AT_START
        536: False,  # SQL_SELECT_FOR_UPDATE_SUPPORTED
        539: True,  # SQL_CORRELATED_SUBQUERIES_SUPPORTED
        540: 3,  # SQL_SUPPORTED_UNIONS: UNION and UNION ALL
        563: False,  # SQL_TRANSACTIONS_SUPPORTED
    }


def info(settings: ServeSettings, wanted: Sequence[int]) -> pa.Table:
    """The facts that are asked for; all of them if none is named. Numbers that this server does not know are left out."""
    known = facts(settings)
    numbers = sorted({number for number in wanted if number in known} if wanted else known)
    kinds = [_KINDS[type(known[number])] for number in numbers]
    children = [pa.array([known[n] for n, kind in zip(numbers, kinds, strict=True) if kind == place], field.type)
                for place, field in enumerate(_fields(_VALUES))]  # fmt: skip
    places, counts = [], [0] * len(children)
    for kind in kinds:
        places.append(counts[kind])
        counts[kind] += 1
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()), pa.array(places, pa.int32()), children, [field.name for field in _fields(_VALUES)]
    )
    return pa.table([pa.array(numbers, pa.uint32()), values], schema=SCHEMA)


def _fields(union: pa.UnionType) -> list[pa.Field]:
    return [union.field(place) for place in range(union.num_fields)]
