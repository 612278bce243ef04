"""TPC-H's 22 queries after an upsert of a tenth of orders and lineitem, by Spark and in process, compared with plain Parquet.

1. The rows of `tpchgen-cli` become tables with TPC-H's primary keys, compacted in full: orders and lineitem in 4 buckets, the
   others in 1. Then a tenth of the orders is upserted with other prices, dates and comments, and their line items with other
   quantities, prices and dates.
2. The tables are read in three states. `upserted`: as an upsert leaves a table by default; superseded rows are marked in deletion
   vectors. `fresh`: the upserted rows lie at level 0. `compacted`: in full, so no row is dead.
3. The other side is the same rows as plain Parquet files, which PyArrow wrote from the generator's rows: views of Spark, views of
   DuckDB. The target is for `upserted`.
4. All sides give the same answers. In process the tables follow Spark's types, so DuckDB's answers are compared exactly but for
   columns of which DuckDB makes a DOUBLE where Spark computes a DECIMAL (averages, quotients): those to twelve digits.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import lsmlake
from bench.result import Measure, Report
from bench.session import session
from bench.timing import Spent, take_turns
from bench.tpch_queries import QUERIES

KEYS = {
    "region": ["r_regionkey"],
    "nation": ["n_nationkey"],
    "supplier": ["s_suppkey"],
    "customer": ["c_custkey"],
    "part": ["p_partkey"],
    "partsupp": ["ps_partkey", "ps_suppkey"],
    "orders": ["o_orderkey"],
    "lineitem": ["l_orderkey", "l_linenumber"],
}
PROGRAM = "tpchgen-cli"
ENGINES = ("process", "spark")
_BUCKETS = {"orders": 4, "lineitem": 4}
_TARGET, _TARGETED = 1.2, "upserted"
_STATES = ("upserted", "fresh", "compacted")
_SHARE = 10
_DIGITS = 12
Answer = list[tuple]
Ask = Callable[[str], Answer]


class NoGenerator(Exception):
    """tpchgen-cli is not installed."""


def run(
    folder: Path,
    scale: float = 1.0,
    rounds: int = 3,
    engines: str = ",".join(ENGINES),
    states: str = ",".join(_STATES),
    queries: str = ",".join(QUERIES),
) -> Report:
    """`engines`, `states`, `queries`: which of them, separated by commas."""
    rows = _generated(folder / "generated", scale)
    sizes = _written(folder, rows, states.split(","))
    del rows
    measures, counts = [], set()
    for name in engines.split(","):
        with _asked(name, folder, states.split(",")) as sides:
            found, answers = _measured(sides, queries.split(","), rounds)
        measures += _compared(name, found)
        counts.add(_same(name, answers))
    return Report(
        "sql_tpch",
        f"best of {rounds} in turns of every query, after one that does not count, added up over the queries",
        {"scale": f"{scale:g}", **sizes},
        f"{len(queries.split(','))} answers, together {counts.pop():,} rows, equal on all sides",
        tuple(measures),
        ("The other side is plain Parquet in the same engine.",),
    )


# -- rows and tables --------------------------------------------------------------------------------------------------


def program() -> str:
    """The path of tpchgen-cli: beside this interpreter, or on the path. Raises NoGenerator."""
    if found := shutil.which(PROGRAM, path=str(Path(sys.executable).parent)) or shutil.which(PROGRAM):
        return found
    raise NoGenerator(f"there is no {PROGRAM}: pip install {PROGRAM}")


def _generated(folder: Path, scale: float) -> dict[str, pa.Table]:
    folder.mkdir(parents=True)
    subprocess.run([program(), "parquet", "-s", f"{scale:g}", "--output-dir", str(folder), "--quiet"], check=True)
    return {name: _plain(pq.read_table(folder / f"{name}.parquet"), key) for name, key in KEYS.items()}


def _plain(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    kinds = [pa.string() if pa.types.is_string_view(field.type) else field.type for field in rows.schema]
    fields = [pa.field(field.name, kind, field.name not in key) for field, kind in zip(rows.schema, kinds, strict=True)]
    return rows.cast(pa.schema(fields))


def _changed(rows: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """New versions of a tenth of the orders, spread over all keys, and of their line items."""
    keys = rows["orders"]["o_orderkey"].to_numpy()
    chosen = pa.array(np.sort(np.random.default_rng(1).choice(keys, len(keys) // _SHARE, replace=False)))
    orders = rows["orders"].filter(pc.is_in(rows["orders"]["o_orderkey"], chosen))
    items = rows["lineitem"].filter(pc.is_in(rows["lineitem"]["l_orderkey"], chosen))
    orders = _with(orders, "o_totalprice", pc.add(orders["o_totalprice"], pa.scalar(Decimal("1.00"))))
    orders = _with(orders, "o_orderdate", _later(orders["o_orderdate"]))
    orders = _with(orders, "o_comment", pc.binary_join_element_wise(orders["o_comment"], "changed", " "))
    items = _with(items, "l_quantity", pc.add(items["l_quantity"], pa.scalar(Decimal("1.00"))))
    items = _with(items, "l_extendedprice", pc.add(items["l_extendedprice"], pa.scalar(Decimal("100.00"))))
    return {"orders": orders, "lineitem": _with(items, "l_shipdate", _later(items["l_shipdate"]))}


def _with(rows: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    field = rows.schema.field(name)
    return rows.set_column(rows.schema.get_field_index(name), field, values.cast(field.type))


def _later(days: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.add(days.cast(pa.int32()), pa.scalar(1, pa.int32())).cast(pa.date32())


def _written(folder: Path, rows: Mapping[str, pa.Table], states: Sequence[str]) -> dict[str, str]:
    """The lakes, one for each state, and the plain files."""
    changed = _changed(rows)
    for name, table in rows.items():
        final = _replaced(table, changed[name], KEYS[name]) if name in changed else table
        (folder / "plain" / name).mkdir(parents=True)
        files = _BUCKETS.get(name, 1)
        step = -(-final.num_rows // files)
        for number in range(files):
            path = folder / "plain" / name / f"{number}.parquet"
            pq.write_table(final.slice(number * step, step), path, compression="zstd", compression_level=1)
    for state in states:
        lake = lsmlake.connect(folder / state)
        lake.create_database("tpch")
        for name, table in rows.items():
            options = {"bucket": _BUCKETS.get(name, 1)}
            made = lake.create_table(f"tpch.{name}", table.schema, primary_key=KEYS[name], options=options)
            made.upsert(table, compact=False)
            made.compact(full=True)
            if name in changed:
                made.upsert(changed[name], compact=False if state == "fresh" else None)
            if state == "compacted":
                made.compact(full=True)
    return {f"lineitem, {state}": _size(folder / state) for state in states}


def _replaced(rows: pa.Table, changed: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows, with those changed in the place of the old ones. Both are in the order of the key."""
    old = pc.is_in(rows[key[0]], changed[key[0]].combine_chunks()).to_numpy()
    places = np.arange(len(old))
    places[old] = len(old) + np.arange(changed.num_rows)
    return pa.concat_tables([rows, changed]).take(places)


def _size(folder: Path) -> str:
    files = lsmlake.connect(folder).table("tpch.lineitem").files()
    levels, dead = files["level"].to_pylist(), sum(files["deleted_record_count"].to_pylist())
    return f"{len(levels)} files, {levels.count(0)} of them at level 0, {dead:,} rows marked dead"


# -- sides ------------------------------------------------------------------------------------------------------------


@contextmanager
def _asked(engine: str, folder: Path, states: Sequence[str]) -> Iterator[dict[str, Ask]]:
    """By side, what answers a query."""
    if engine == "process":
        lakes = {state: lsmlake.connect(folder / state) for state in states}
        with duckdb.connect() as connection:
            connection.execute("CREATE SCHEMA tpch")
            for name in KEYS:
                connection.execute(f"CREATE VIEW tpch.{name} AS FROM read_parquet('{folder / 'plain' / name}/*.parquet')")
            yield {"plain": partial(_by_duckdb, connection), **{of: partial(_by_process, lake) for of, lake in lakes.items()}}
        return
    with session(folder) as spark:
        for name in KEYS:
            spark.read.parquet(str(folder / "plain" / name)).createOrReplaceTempView(f"plain_{name}")
        lakes = {state: lsmlake.connect(folder / state, spark=spark) for state in states}
        yield {
            "plain": lambda text: [tuple(row) for row in spark.sql(text.replace("tpch.", "plain_")).collect()],
            **{state: partial(_by_spark, lake) for state, lake in lakes.items()},
        }


def _by_process(lake: lsmlake.Lake, text: str) -> Answer:
    return _rows(lake.sql(text).to_arrow())


def _by_spark(lake: lsmlake.Lake, text: str) -> Answer:
    return [tuple(row) for row in lake.sql(text).collect()]


def _by_duckdb(connection: duckdb.DuckDBPyConnection, text: str) -> Answer:
    return _rows(connection.sql(text).to_arrow_table())


def _rows(found: pa.Table) -> Answer:
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


# -- measuring and comparing ------------------------------------------------------------------------------------------

Found = dict[str, dict[str, Spent]]
"""By query and side."""


def _measured(sides: Mapping[str, Ask], queries: Sequence[str], rounds: int) -> tuple[Found, dict[str, dict[str, Answer]]]:
    found: Found = {}
    answers: dict[str, dict[str, Answer]] = {}
    for query in queries:
        text, answers[query] = QUERIES[query], {}

        def work(side: str, ask: Ask, text: str = text, query: str = query) -> None:
            answers[query][side] = ask(text)

        found[query] = take_turns({side: lambda _, s=side, a=ask: partial(work, s, a) for side, ask in sides.items()}, rounds)
    return found, answers


def _compared(engine: str, found: Found) -> Iterator[Measure]:
    states = [side for side in next(iter(found.values())) if side != "plain"]
    for state in states:
        ours, plain = ([spent[side] for spent in found.values()] for side in (state, "plain"))
        target = _TARGET if state == _TARGETED else None
        seconds = [sum(one.seconds for one in side) for side in (ours, plain)]
        yield Measure(f"{engine}: all queries, {state}", *seconds, target=target)
        yield Measure(f"{engine}: all queries, {state}: CPU", *(sum(one.cpu for one in side) for side in (ours, plain)))
    for query, spent in found.items():
        yield Measure(f"{engine}: {query}, {states[0]}", spent[states[0]].seconds, spent["plain"].seconds)


def _same(engine: str, answers: Mapping[str, Mapping[str, Answer]]) -> int:
    """The rows of all answers together. Raises AssertionError where sides differ."""
    for query, of in answers.items():
        plain = of["plain"]
        for side, answer in of.items():
            rows = zip(sorted(map(_shown, answer)), sorted(map(_shown, plain)), strict=True)
            wrong = [(a, b) for a, b in rows if not all(map(equal, a, b))]
            assert len(answer) == len(plain) and not wrong, f"{engine}, {query}: {side} is not plain: {wrong[:3]}"
    return sum(len(of["plain"]) for of in answers.values())


def _shown(row: tuple) -> tuple:
    """Numbers last, so that rows come in one order even where engines differ in the last digit of a number."""
    return tuple(sorted(row, key=lambda value: isinstance(value, (float, Decimal))))


def equal(a: object, b: object) -> bool:
    """Exactly, but where one side computed a DOUBLE: to twelve digits, or to the digits that the other side's DECIMAL has."""
    if None in (a, b):
        return a is b
    if isinstance(a, float) or isinstance(b, float):
        digits = [-value.as_tuple().exponent for value in (a, b) if isinstance(value, Decimal)]
        error = max([abs(float(b)) * 10.0**-_DIGITS, *(0.500001 * 10.0**-each for each in digits)])
        return abs(float(a) - float(b)) <= error
    return a == b
