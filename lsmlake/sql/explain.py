"""EXPLAIN: the files that a query reads, and how many were pruned. FORMATTED names the files, ANALYZE also runs the query and
measures it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.sql_text import Text
from lsmlake.dialect.table_use import TableUse
from lsmlake.errors import InvalidQuery
from lsmlake.read.fallback import branches_read
from lsmlake.read.native import source_of
from lsmlake.read.plan import Plan
from lsmlake.sql.named_tables import Catalog
from lsmlake.sql.run_query import Prepared, prepare, run
from lsmlake.sql.token_reader import first_word
from lsmlake.statements.explained import ANALYZE, FORMATTED, PLAIN, contents, pruned
from lsmlake.types.spelling import spelled

_OF_SPARK = ("EXTENDED", "CODEGEN", "COST")


def mode_of(text: str, behind: int, *, spark: bool) -> tuple[str, int]:
    """The mode after EXPLAIN, or PLAIN, and the position after it. `spark`: Spark explains: it has other modes."""
    if not text[behind:].strip():
        raise InvalidQuery("EXPLAIN takes a query", where=text, cure="write EXPLAIN SELECT ...")
    word, stop = first_word(text[behind:])
    if spark and word in (FORMATTED, *_OF_SPARK):
        return word, behind + stop
    if word in (FORMATTED, ANALYZE):
        if spark:
            raise InvalidQuery("Spark has no EXPLAIN ANALYZE", where=text, cure="run the query, and look at it in Spark's UI")
        return word, behind + stop
    if word in _OF_SPARK:
        cure = "write EXPLAIN FORMATTED or EXPLAIN ANALYZE, or attach Spark"
        raise InvalidQuery(f"EXPLAIN {word} is about plans of Spark", where=text, expected=f"{FORMATTED} or {ANALYZE}", cure=cure)
    return PLAIN, behind


def explain(node: exp.Expression, text: Text, catalog: Catalog, mode: str, now: str) -> Callable[[], pa.Table]:
    """Reads EXPLAIN of a query."""
    clock = catalog.lake.env.clock
    start = clock()
    prepared = prepare(node, text, catalog, now)
    planned = clock() - start

    def act() -> pa.Table:
        lines = list(described(prepared, mode))
        if mode == ANALYZE:
            start = clock()
            rows = run(prepared).num_rows
            lines.append(f"result: {rows:,} rows")
            lines.append(f"  time      planned in {planned:,} ms, executed in {clock() - start:,} ms")
        return as_rows(lines)

    return act


def as_rows(lines: Iterable[str]) -> pa.Table:
    """The result of EXPLAIN."""
    return pa.table({"plan": pa.array(list(lines), pa.string())})


def described(prepared: Prepared, mode: str = PLAIN) -> Iterator[str]:
    """The plan of each table, as lines."""
    for use, table in zip(prepared.uses, prepared.plans, strict=True):
        name = ".".join(part.name for part in use.node.parts)
        if isinstance(table, Plan):
            yield from _of_table(name, use, table, mode)
        else:
            yield f"{name}: {table.num_rows:,} rows in memory" if isinstance(table, pa.Table) else f"{name}: all rows"


def _of_table(name: str, use: TableUse, plan: Plan, mode: str) -> Iterator[str]:
    yield f"{name}: snapshot {plan.snapshot.id if plan.snapshot else 'none: the table is empty'}"
    yield from (f"  {line}" for line in branches_read(plan))
    yield f"  columns   {', '.join(plan.columns)}"
    yield f"  where     {' AND '.join(spelled(condition) for condition in use.conditions) or 'all rows'}"
    if use.limit is not None and not use.conditions:
        yield f"  limit     {use.limit}"
    yield pruned(plan)
    yield from (f"  {line}" for line in source_of(plan).describe("duckdb"))
    yield from contents(plan, mode)
