"""Spark's golden files: the statements of SQLQueryTestSuite, in order, each with the schema and the rows that Spark gives.

The file of results holds all of it; the file of inputs says with which settings of the session it was made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from spark_sql.jar import names, text

ZONE = "America/Los_Angeles"
"""The time zone of the sessions that made the files."""
_RESULTS, _INPUTS = "sql-tests/results/", "sql-tests/inputs/"
_OTHER_SESSIONS = ("nonansi/", "timestampNTZ/", "udf/", "udaf/", "udtf/", "scripting/")
"""Folders of files that were made with another session: without ANSI mode, with another type of timestamps, with functions of the
suite's own; and scripts."""
_OF_LEGACY = "postgreSQL/"
"""The folder of files whose session makes every INTERVAL a calendar interval (spark.sql.legacy.interval.enabled)."""
_CALENDAR = re.compile(r":interval[,>]")
_SETTINGS = re.compile(r"^--(?:SET|CONFIG_DIM\d) (.*)$", re.MULTILINE)
_HARMLESS = re.compile(
    r"spark\.sql\.(codegen|optimizeNullAware|optimizer\.(windowGroup|enableJson|decorrelateInnerQuery\.)|autoBroadcast|adaptive"
    r"|join|cbo|subexpressionElimination|leafNode|analyzer.singlePass|maxMetadata|cteRecursion|shuffle|cache|execution|sources"
    r"|files|parquet|statistics|crossJoin|inMemory|constraintPropagation)"
)
"""Settings that change how Spark executes a statement, not what it means."""
_ON = ("viewschemabindingmode", "viewschemacompensation")
"""Switches that are on by default; others with `legacy` in their names bring the meaning of an older Spark back, and are off."""
_IMPORT = re.compile(r"^--IMPORT (.*)$", re.MULTILINE)
_PART = re.compile(r"(.*?)\n-- !query schema\n(.*?)\n-- !query output\n(.*)", re.DOTALL)
_COMMENT = re.compile(r"\s*(--[^\n]*(\n|$)|/\*.*?\*/)|\s+", re.DOTALL)
_CHANGES = ("INSERT", "DELETE", "UPDATE", "MERGE", "TRUNCATE")
_CHANGE_AFTER = re.compile(r"[\s)](INSERT\s+(INTO|OVERWRITE)|DELETE\s+FROM|MERGE\s+INTO|UPDATE\s+\w+\s+SET)\s", re.IGNORECASE)
_EXCEPTION = re.compile(r"(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error)\w*")
_SET = re.compile(r"SET\s+([\w.]+)\s*=\s*(.*)", re.IGNORECASE | re.DOTALL)
_SET_ZONE = re.compile(r"SET\s+TIME\s+ZONE\b.*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Statement:
    """A statement of a golden file. `schema` is Spark's, such as `struct<a:int>`; `output`: the rows as lines, or an error."""

    file: str
    number: int
    text: str
    schema: str
    output: str

    @property
    def place(self) -> str:
        return f"{self.file} {self.number}"

    @property
    def failed(self) -> bool:
        """Whether Spark raised an error."""
        return self.schema == "struct<>" and bool(_EXCEPTION.match(self.output))

    @cached_property
    def bare(self) -> str:
        """The text without the comments before it."""
        rest = self.text
        while found := _COMMENT.match(rest):
            rest = rest[found.end() :]
        return rest.rstrip().removesuffix(";").rstrip()

    @property
    def first(self) -> str:
        """The first word."""
        found = re.match(r"\(*\s*(\w+)", self.bare)
        return found[1].upper() if found else ""

    @property
    def is_of_other_session(self) -> bool:
        """Whether a new session answers otherwise: it has types of INTERVAL with fields."""
        return self.file.startswith(_OF_LEGACY) and bool(_CALENDAR.search(self.schema))

    @property
    def is_query(self) -> bool:
        return self.first in ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "MAP", "REDUCE") and not self.changes_rows

    @property
    def changes_rows(self) -> bool:
        return self.first in _CHANGES or bool(self.first in ("WITH", "FROM") and _CHANGE_AFTER.search(self.bare))


def files() -> list[str]:
    """The golden files whose session is that of a new Spark, but for its time zone."""
    inputs = set(names(_INPUTS, ".sql"))
    return [one for one in names(_RESULTS, ".sql.out") if one in inputs and not one.startswith(_OTHER_SESSIONS) and _plain(one)]


def statements(file: str) -> list[Statement]:
    """Those of a file, in order."""
    found = []
    parts = re.split(r"^-- !query\n", text(f"{_RESULTS}{file}.sql.out"), flags=re.MULTILINE)[1:]
    for number, part in enumerate(parts, 1):
        matched = _PART.fullmatch(part)
        assert matched, f"{file} {number}: not a statement with its schema and output"
        found.append(Statement(file, number, matched[1], matched[2].strip("\n"), matched[3].rstrip("\n")))
    return found


def setting(statement: Statement) -> tuple[str, str] | None:
    """What a SET statement sets, if it may change what others mean."""
    found = _SET.fullmatch(statement.bare)
    return None if found is None or _HARMLESS.match(found[1]) else (found[1].lower(), found[2].strip().lower())


def zone_set(statement: Statement) -> str | None:
    """The time zone from here on, if this statement sets it."""
    return None if statement.failed or not _SET_ZONE.fullmatch(statement.bare) else statement.output.split("\t")[-1]


def default(name: str, value: str) -> str | None:
    """What a setting is by default, given its name and a value of it; None: it is not known."""
    if ".legacy." not in name or value not in ("true", "false"):
        return None
    return "true" if name.endswith(_ON) else "false"


def _plain(file: str) -> bool:
    source = text(f"{_INPUTS}{file}.sql")
    settings = [part for line in _SETTINGS.findall(source) for part in re.split(r",\s*(?=spark\.)", line)]
    harmless = all(_HARMLESS.match(one.strip()) or one.strip() == "spark.sql.ansi.enabled = true" for one in settings)
    return harmless and all(_plain(one.strip().removesuffix(".sql")) for one in _IMPORT.findall(source))
