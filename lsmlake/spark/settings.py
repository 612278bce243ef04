"""Handles session settings that would change the result of a read.

There are three kinds: settings that a reader option overrides (`READER`), settings under which Catalyst cannot read the data
files (`refuses_native`), and settings that change the meaning of SQL text (`reads_otherwise`, `check_columns`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pyarrow as pa

from lsmlake.errors import InvalidQuery
from lsmlake.types.column_types import any_inside
from lsmlake.types.type_table import TABLE

Get = Callable[[str, str], str]
"""`spark.conf.get`: the name of a setting and its default."""

READER = {
    "ignoreMissingFiles": "false",  # true: the rows of an expired file would be missing, without an error
    "ignoreCorruptFiles": "false",  # true: the rows of a damaged file would be missing
    "ignoreInvalidPartitionPaths": "false",
    "datetimeRebaseMode": "CORRECTED",  # LEGACY: dates before 1582 would move by days
    "int96RebaseMode": "CORRECTED",
    "mergeSchema": "false",
    "parquet.page.verify-checksum.enabled": "true",  # false, as in Parquet's Java reader: a flipped bit can give wrong rows
}
"""Options of a Parquet read. Each overrides the corresponding session setting."""

POSITION = "_tmp_metadata_row_index"
"""Spark's Parquet reader returns row positions in a column with this name, regardless of the file's content."""

_V1_SOURCES = "spark.sql.sources.useV1SourceList"
_IGNORED = "spark.sql.files.ignoredPathSegmentRegex"
_REGEX_NAMES = "spark.sql.parser.quotedRegexColumnNames"
_ANSI = "spark.sql.ansi.enabled"

_MEANINGS = (
    ("spark.sql.variable.substitute", "true", "true", r"\$\{"),
    ("spark.sql.parser.escapedStringLiterals", "false", "true", r"\\"),
    ("spark.sql.ansi.doubleQuotedIdentifiers", "false", "true", r'"'),
    ("spark.sql.timestampType", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", r"(?i)timestamp"),
    ("spark.sql.legacy.consecutiveStringLiterals.enabled", "false", "true", r"''"),
    ("spark.sql.legacy.exponentLiteralAsDecimal.enabled", "false", "true", r"(?i)\de"),
    ("spark.sql.legacy.typeCoercion.datetimeToString.enabled", "false", "true", r"'|\""),
    ("spark.sql.legacy.compareDateTimestampInTimestamp", "true", "false", r"(?i)date|timestamp"),
    ("spark.sql.legacy.duplicateBetweenInput", "false", "true", r"(?i)between"),
)
"""(setting, Spark's default, the value at which Spark and lsmlake read SQL text differently, the affected text)."""

_OPERATORS = (
    (_ANSI, "true"),
    ("spark.sql.caseSensitive", "false"),
    ("spark.sql.decimalOperations.allowPrecisionLoss", "true"),
    ("spark.sql.function.concatBinaryAsString", "false"),
    ("spark.sql.legacy.allowNegativeScaleOfDecimal", "false"),
    ("spark.sql.legacy.decimal.retainFractionDigitsOnTruncate", "false"),
    ("spark.sql.legacy.literal.pickMinimumPrecision", "true"),
)
"""(setting, Spark's default) of those that change what names, literals and operators mean."""

_CASTS = re.compile(r"cast|::", re.IGNORECASE)
_QUOTES = re.compile(r"'|\"")
_LISTS = re.compile(r"\b(in|between)\b", re.IGNORECASE)


def refuses_native(get: Get, names: Iterable[str]) -> str | None:
    """Returns the reason why Catalyst cannot read data files with columns `names` in this session; None if it can."""
    if POSITION in map(str.lower, names):
        return f"Spark's Parquet reader uses the name of column {POSITION!r} for row positions"
    if "parquet" not in re.split(r"\s*,\s*", get(_V1_SOURCES, "parquet").strip().lower()):
        return f"{_V1_SOURCES} lacks parquet, and Spark's other Parquet reader has no row positions"
    if get(_IGNORED, ""):
        return f"{_IGNORED} is set, which could hide data files"
    return None


def reads_otherwise(get: Get, where: str, types: Iterable[pa.DataType]) -> str | None:
    """Returns the setting under which Spark may read the SQL text `where` differently than lsmlake, which assumes Spark's
    defaults; None if there is none. `types`: the types of its columns."""
    for name, default, value, text in _MEANINGS:
        if re.search(text, where) and get(name, default).upper() == value.upper():
            return f"{name} = {get(name, default)}"
    if _depends_on_ansi(where, types) and get(_ANSI, "true").lower() != "true":
        return f"{_ANSI} = false"
    return None


def computes_otherwise(get: Get, texts: Iterable[str]) -> bool:
    """Whether Spark may evaluate expressions of names, literals and operators differently than lsmlake. `texts`: their SQL."""
    words = "\n".join(texts)
    changed = any(get(name, default).lower() != default for name, default in _OPERATORS)
    return changed or any(
        re.search(text, words) and get(name, default).upper() != default.upper() for name, default, _, text in _MEANINGS
    )


def _depends_on_ansi(where: str, types: Iterable[pa.DataType]) -> bool:
    """Whether the text has casts: explicit ones, or implicit ones of text that is compared with a column of another type."""
    if _CASTS.search(where):
        return True
    others = [type_ for type_ in types if not (pa.types.is_string(type_) or pa.types.is_binary(type_))]
    times = all(pa.types.is_temporal(type_) for type_ in others) and not _LISTS.search(where)
    return bool(_QUOTES.search(where)) and bool(others) and not times


def check_types(get: Get, columns: pa.Schema) -> None:
    """Raises InvalidQuery if the session lacks the type of a column."""
    for row in TABLE:
        held = [field.name for field in columns if any_inside(field.type, row.arrow.__eq__)] if row.setting is not None else []
        if held and get(row.setting, "false").lower() != "true":
            raise InvalidQuery(
                f"Spark refuses {row.name} in this session",
                where=f"columns {held}",
                found=f"{row.setting} = false",
                cure=f"spark.conf.set({row.setting!r}, 'true')",
            )


def check_columns(get: Get, columns: pa.Schema) -> None:
    """As `check_types`, and raises InvalidQuery if the session reads the backticked name of a column as a pattern."""
    check_types(get, columns)
    odd = [name for name in columns.names if not re.fullmatch(r"\w+", name)]
    if odd and get(_REGEX_NAMES, "false").lower() == "true":
        raise InvalidQuery(
            "Spark reads backticked column names as patterns in this session",
            where=f"columns {odd}",
            found=f"{_REGEX_NAMES} = true",
            cure=f"spark.conf.unset({_REGEX_NAMES!r})",
        )
