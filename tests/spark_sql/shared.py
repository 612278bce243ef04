"""The tables that SQLQueryTestSuite makes for all of its files."""

from __future__ import annotations

import io

import pyarrow as pa
from pyarrow import csv

from spark_sql.jar import jar

_NUMBERS = "unique1 unique2 two four ten twenty hundred thousand twothousand fivethous tenthous odd even"
_TEXTS = "stringu1 stringu2 string4"
_TENK = (*((name, pa.int32()) for name in _NUMBERS.split()), *((name, pa.string()) for name in _TEXTS.split()))
_FILES = {
    "aggtest": ("agg", (("a", pa.int32()), ("b", pa.float32()))),
    "onek": ("onek", _TENK),
    "tenk1": ("tenk", _TENK),
}
"""Name -> its file, and its columns."""
SHARED = (*_FILES, "testdata", "arraydata", "mapdata")


def shared(name: str) -> pa.Table:
    """The rows of a table."""
    if name == "testdata":
        return pa.table({"key": pa.array(range(1, 101), pa.int32()), "value": [str(key) for key in range(1, 101)]})
    if name == "arraydata":
        kind = pa.schema([("arraycol", pa.list_(pa.int32())), ("nestedarraycol", pa.list_(pa.list_(pa.int32())))])
        return pa.table({"arraycol": [[1, 2, 3], [2, 3, 4]], "nestedarraycol": [[[1, 2, 3]], [[2, 3, 4]]]}, schema=kind)
    if name == "mapdata":
        maps = [[(key, f"{letter}{row}") for key, letter in enumerate("abcde"[: 6 - row], 1)] for row in range(1, 6)]
        return pa.table({"mapcol": pa.array(maps, pa.map_(pa.int32(), pa.string()))})
    file, columns = _FILES[name]
    bytes_ = io.BytesIO(jar().read(f"test-data/postgresql/{file}.data"))
    reading = csv.ReadOptions(column_names=[one for one, _ in columns])
    return csv.read_csv(bytes_, reading, csv.ParseOptions(delimiter="\t"), csv.ConvertOptions(column_types=dict(columns)))
