"""Runs the statements of golden files in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from uuid import uuid4

import lsmlake
from lsmlake.errors import InvalidQuery, LakeError
from spark_sql.golden import ZONE, Statement, default, setting, statements, zone_set
from spark_sql.judge import depends_on_order, difference, is_undetermined, peers
from spark_sql.verdict import BOTH, EQUAL, REFUSED, WRONG, Outcome, of_error, without_names
from spark_sql.views import DATABASE, NotMade, Views


def golden(files: Iterable[str], seed: int, said: Mapping[str, Statement] | None = None) -> Iterator[Outcome]:
    """The outcome of each statement of the files that reads or changes rows. `said`: what the installed Spark says of some, by
    their places."""
    for number, file in enumerate(files):
        with tempfile.TemporaryDirectory() as folder:
            in_memory = (number + seed) % 2  # then DuckDB reads Arrow, else the Parquet files
            lake = lsmlake.connect(f"memory://spark-sql-{uuid4().hex}" if in_memory else folder, time_zone=ZONE)
            lake.create_database(DATABASE)
            yield from _file(Views(lake, seed), [(said or {}).get(one.place, one) for one in statements(file)])


def _file(views: Views, found: Iterable[Statement]) -> Iterator[Outcome]:
    changed: dict[str, str] = {}  # settings and the current database: what it means then is not what a new session makes of it
    for statement in found:
        if zone := zone_set(statement):
            changed.pop("TIME ZONE", None)
            try:
                views = views.in_zone(zone)
            except InvalidQuery:  # a zone of Spark's only
                changed["TIME ZONE"] = zone
        elif made := setting(statement):
            name, value = made
            again = changed.pop(name, None) is not None
            usual = default(name, value)
            if not (again if usual is None else value == usual):  # a setting that is set again is what it was
                changed[name] = value
        elif statement.first == "RESET":
            changed.clear()
        elif statement.first == "USE" or statement.bare.upper().startswith(("CREATE DATABASE", "CREATE SCHEMA")):
            changed["USE"] = statement.bare
        elif changed or statement.is_of_other_session:
            continue
        elif statement.is_query:
            yield _query(views, statement)
        elif statement.changes_rows:
            yield _change(views, statement)
        elif not statement.failed:
            views.carry_out(statement)


def _query(views: Views, one: Statement) -> Outcome:
    expected = f"{one.schema}\n{one.output}"
    try:
        rows = views.query(one.text)
    except Exception as error:  # of any kind: it is an outcome
        return _failed(one, error, expected)
    if one.failed:
        return Outcome(one.place, one.text, WRONG, expected=expected, found=str(rows.slice(0, 20).to_pylist()), failed=True)
    found = difference(one, rows, views.zone)
    if found and is_undetermined(one.text) and not found.startswith("the types"):
        return Outcome(one.place, one.text, EQUAL)
    if found and depends_on_order(one.text) and not _differs_in_order(views, one):
        return Outcome(one.place, one.text, EQUAL)
    if found and not found.startswith("the types") and _has_ties(views, one):
        return Outcome(one.place, one.text, EQUAL)
    return Outcome(one.place, one.text, WRONG if found else EQUAL, expected=expected, found=found)


def _differs_in_order(views: Views, one: Statement) -> bool:
    """Whether the rows differ also if the tables have theirs in the order of the file."""
    try:
        return bool(difference(one, views.query_in_memory(one.text), views.zone))
    except (LakeError, NotMade):
        return True


def _has_ties(views: Views, one: Statement) -> bool:
    """Whether a window function depends on the order of rows that are equal to its ORDER BY: Spark may choose the value."""
    try:
        text = peers(one.text)
        numbers = [] if text is None else [value for row in views.query(text).to_pylist() for value in row.values()]
    except (LakeError, NotMade):
        return False
    return any(value > 1 for value in numbers)


def _change(views: Views, one: Statement) -> Outcome:
    """Of a statement that changes rows: what it does, the queries after it tell."""
    try:
        views.change(one.text)
    except Exception as error:  # of any kind: it is an outcome
        return _failed(one, error, one.output)
    return Outcome(one.place, one.text, WRONG if one.failed else EQUAL, expected=one.output, found="accepted", failed=one.failed)


def _failed(one: Statement, error: Exception, expected: str) -> Outcome:
    if isinstance(error, NotMade):
        reason, detail = without_names(f"a table of it cannot be made: {error}", one.text)
        return Outcome(one.place, one.text, BOTH if one.failed else REFUSED, reason, detail, expected)
    return of_error(one.place, one.text, error, expected, one.failed)
