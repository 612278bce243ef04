"""The queries of TPC-DS, whose text is in the tests of Spark, over tables of dsdgen's rows at scale 0.01: beside PySpark.

What PySpark answers is kept in the folder of the cache, by its version.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pyspark
from pyspark.errors import PySparkException

import lsmlake
from bench.peers.roster import Environment
from bench.peers.setup import NotReady, provide, python_of
from spark_sql import jar
from spark_sql.hive import type_name
from spark_sql.judge import rows_differ
from spark_sql.session import session
from spark_sql.verdict import EQUAL, WRONG, Outcome, of_error
from spark_sql.views import DATABASE, Views

HOME = Path.home() / ".cache" / "lsmlake-spark-sql"
_GENERATOR = Environment("tpcgen", ("tpcgen-cli==4.0.0",))
_SCALE = "0.01"
_FOLDERS = ("tpcds/", "tpcds-v2.7.0/")
_ERROR = "error of Spark"
"""The only column of an answer that is an error."""
_LIMIT = re.compile(r"\blimit\s+(\d+)\s*;?\s*$", re.IGNORECASE)


def queries() -> dict[str, str]:
    """Name -> text."""
    return {f"{folder}{name}": jar.text(f"{folder}{name}.sql") for folder in _FOLDERS for name in jar.names(folder, ".sql")}


def tpcds(home: Path, seed: int, only: str = "") -> Iterator[Outcome]:
    """The outcome of each query whose name has the text `only`. `seed`: of the layouts of the tables."""
    texts = {name: text for name, text in queries().items() if only in name}
    folder = _data(home)
    answers = home / f"spark-{pyspark.__version__}-{_SCALE}"
    _ask_spark(folder, answers, texts)
    with tempfile.TemporaryDirectory() as warehouse:
        lake = lsmlake.connect(warehouse)
        lake.create_database(DATABASE)
        views = Views(lake, seed)
        for file in sorted(folder.glob("*.parquet")):
            views.store(file.stem, _plain(pq.read_table(file)))
        for name, text in texts.items():
            yield _judged(views, name, text, answers)


def _judged(views: Views, name: str, text: str, answers: Path) -> Outcome:
    expected = feather.read_table(_answer(answers, name), memory_map=False)
    failed = expected.column_names == [_ERROR]
    shown = expected[_ERROR][0].as_py()[:500] if failed else _shown(expected)
    try:
        limited, found = views.query(text), views.query(_unlimited(text))
    except Exception as error:  # of any kind: it is an outcome
        return of_error(f"{name} 1", text, error, shown, failed)
    if failed:
        return Outcome(f"{name} 1", text, WRONG, expected=shown, found=f"{found.num_rows} rows", failed=True)
    limit = _LIMIT.search(text)
    rows = expected.num_rows if limit is None else min(expected.num_rows, int(limit[1]))
    differs = rows_differ(expected, found, "UTC")
    if not differs and limited.num_rows != rows:
        differs = f"with its LIMIT {limited.num_rows} rows, not {rows}"
    return Outcome(f"{name} 1", text, WRONG if differs else EQUAL, expected=shown, found=differs)


def _shown(rows: pa.Table) -> str:
    return f"{', '.join(f'{one.name} {type_name(one)}' for one in rows.schema)}\n{rows.num_rows} rows"


def _unlimited(text: str) -> str:
    """All rows: with a LIMIT, rows of equal rank could differ."""
    return _LIMIT.sub("", text.strip())


def _data(home: Path) -> Path:
    """The folder of the rows, one file for each table. Raises NotReady."""
    folder = home / f"tpcds-{_SCALE}"
    if not folder.exists():
        for why in provide(home, [_GENERATOR], []).values():
            raise NotReady(why)
        with tempfile.TemporaryDirectory(dir=home) as made:
            program = python_of(home, _GENERATOR.name).parent / "tpcgen-cli"
            subprocess.run([program, "tpcds", "parquet", "-s", _SCALE, "-o", f"{made}/rows"], check=True)
            _rename(Path(made, "rows", "customer.parquet"), "c_last_review_date_sk", "c_last_review_date")
            Path(made, "rows").rename(folder)
    return folder


def _rename(file: Path, old: str, new: str) -> None:
    """Gives a column the name that Spark's queries have for it."""
    rows = pq.read_table(file)
    pq.write_table(rows.rename_columns([new if name == old else name for name in rows.column_names]), file)


def _ask_spark(folder: Path, answers: Path, texts: dict[str, str]) -> None:
    """Writes what PySpark answers where it was not asked before."""
    missing = {name: text for name, text in texts.items() if not _answer(answers, name).exists()}
    if not missing:
        return
    with session() as spark:
        for file in folder.glob("*.parquet"):
            spark.read.parquet(str(file)).createOrReplaceTempView(file.stem)
        for name, text in missing.items():
            _answer(answers, name).parent.mkdir(parents=True, exist_ok=True)
            try:
                rows = spark.sql(_unlimited(text)).toArrow()
            except PySparkException as error:
                rows = pa.table({_ERROR: [str(error)]})
            feather.write_feather(rows, str(_answer(answers, name)), compression="zstd")
            print(name, rows.num_rows, flush=True)


def _answer(answers: Path, name: str) -> Path:
    return answers / f"{name}.arrow"


def _plain(rows: pa.Table) -> pa.Table:
    kinds = [pa.string() if pa.types.is_string_view(one.type) else one.type for one in rows.schema]
    return rows.cast(pa.schema(list(zip(rows.column_names, kinds, strict=True))))
