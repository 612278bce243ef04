"""One session of Spark for lsmlake and several peers, for benches in which all of them get the same DataFrames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from bench.peers import roster
from bench.peers.setup import HOME, jars_of, provide
from bench.peers.spark import SparkPeer, session

_EXTENSIONS = "spark.sql.extensions"


@contextmanager
def shared_session(bench: str, folder: Path, peers: Mapping[str, type[SparkPeer]]) -> Iterator[SparkSession]:
    """A session with the jars and the settings of peers, which are classes by their names in the roster. Iceberg's warehouse lies
    in `folder`. Raises SystemExit, with the name of the bench, for another Spark than that of the peers, and without their jars.
    """
    line = roster.SPARK.rpartition(".")[0]
    if not pyspark.__version__.startswith(f"{line}."):
        raise SystemExit(f"{bench} needs pyspark {line}, for which its peers have jars; this is {pyspark.__version__}")
    jars = [roster.PEERS[name].jars for name in peers]
    if failed := provide(HOME, (), jars):
        raise SystemExit(f"{bench} needs the jars of its peers: {failed}")
    conf = {name: value for peer in peers.values() for name, value in peer.conf.items()}
    conf[_EXTENSIONS] = ",".join(peer.conf[_EXTENSIONS] for peer in peers.values())
    conf["spark.sql.catalog.lake.warehouse"] = str(folder / "iceberg")
    spark = session(folder, [path for one in jars for path in jars_of(HOME, one)], conf)
    try:
        yield spark
    finally:
        spark.stop()
