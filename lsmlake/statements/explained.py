"""The lines of EXPLAIN for a statement: the files that its plan would read, and how it would change the rows.

EXPLAIN writes nothing and reads no rows. So for a MERGE it cannot say how many files the values of the source would leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from lsmlake.read.plan import Plan, plan
from lsmlake.schema.schema import Schema
from lsmlake.statements.clause import BY_SOURCE, DELETE, UPDATE, Clause
from lsmlake.statements.statement import ExpressionPart
from lsmlake.tables.version import Version
from lsmlake.types.spelling import spelled
from lsmlake.write.changeable import check_deletable, check_updatable

PLAIN: Final = ""
FORMATTED: Final = "FORMATTED"
ANALYZE: Final = "ANALYZE"
_FILES_SHOWN_MAX = 20


def pruned(plan: Plan) -> str:
    """A text with the number of files that each step of pruning leaves."""
    return f"  files     {' -> '.join(f'{files} ({step})' for step, files in plan.pruned)}"


def contents(plan: Plan, mode: str) -> Iterator[str]:
    """Lines about the remaining files: none with `PLAIN`, with `FORMATTED` also their names."""
    if mode == PLAIN:
        return
    files = plan.data_files
    yield f"  reads     {sum(file.rows for file in files):,} rows, {sum(file.bytes for file in files):,} bytes in the files"
    if mode == FORMATTED:
        shown = files[:_FILES_SHOWN_MAX]
        yield from (f"  file      {file.name}: level {file.level}, {file.rows:,} rows, {file.bytes:,} bytes" for file in shown)
        if len(files) > len(shown):
            yield f"  file      and {len(files) - len(shown):,} more"


def change_lines(
    name: str,
    planned: Plan,
    clause: Clause[ExpressionPart],
    where: ExpressionPart | None,
    values: Mapping[str, ExpressionPart],
    by: str,
    mode: str,
) -> Iterator[str]:
    """The lines of a DELETE or UPDATE. `values`: column -> new value. `by`: the engine that finds the rows."""
    version = planned.version
    _check(version, clause.action, values)
    yield changed_table(name, version)
    yield f"  rows      found by {by}"
    yield f"  where     {'all rows' if where is None else spelled(where.node)}"
    yield pruned(planned)
    yield from contents(planned, mode)
    yield f"  action    {_action(clause.action, values)}"
    yield writes(version.schema)


def merge_lines(
    name: str,
    version: Version,
    on: ExpressionPart,
    equal: Sequence[tuple[str, str]],
    clauses: Iterable[tuple[Clause[ExpressionPart], Mapping[str, ExpressionPart]]],
    by: str,
    mode: str,
) -> Iterator[str]:
    """The lines of the target of a MERGE. `equal`: pairs of a target and a source column that must be equal. `clauses`: each
    clause with column -> value."""
    listed = list(clauses)
    for clause, values in listed:
        _check(version, clause.action, values)
    planned = plan(version)
    yield changed_table(name, version)
    yield f"  rows      found by {by}"
    yield f"  on        {spelled(on.node)}"
    yield pruned(planned)
    if equal and all(clause.when != BY_SOURCE for clause, _ in listed):
        pairs = " and ".join(f"{own} as in {other} of the source" for own, other in equal)
        yield f"  fewer     only files are read that can hold {pairs}"
    yield from contents(planned, mode)
    for clause, values in listed:
        condition = "" if clause.condition is None else f" and {spelled(clause.condition.node)}"
        yield f"  {clause.when}{condition}: {_action(clause.action, values)}"
    yield writes(version.schema)


def changed_table(name: str, version: Version) -> str:
    """The first line: the table that the statement changes."""
    return f"{name}: snapshot {version.number or 'none: the table is empty'}, to be changed"


def writes(schema: Schema) -> str:
    """A line that says how changes are written."""
    if not schema.append_only:
        return "  writes    rows and deletes by key"
    if schema.parsed_options.layout.deletion_vectors:
        return "  writes    deletion vectors of old rows, files with new ones"
    return "  writes    anew the files that hold old rows, files with new ones"


def _action(action: str, values: Mapping[str, ExpressionPart]) -> str:
    return action if action == DELETE else f"{action} {', '.join(values)}"


def _check(version: Version, action: str, values: Mapping[str, ExpressionPart]) -> None:
    """Raises the errors that the statement itself would raise before it reads rows."""
    if action == UPDATE:
        check_updatable(version.schema, list(values), version.meta.paths.root)
    if action == DELETE:
        check_deletable(version.schema, version.meta.paths.root)
