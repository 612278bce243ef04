"""The way over Kafka: a broker that Debezium's engine writes to, and a stream of Spark that applies the events on a cluster."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark
from cluster.machines import HOSTS, QUICK, Cluster

from bench.peers.roster import Jars
from pipelines.bank import KEYS
from pipelines.databases import Database, Missing, home
from pipelines.processes import Killed, Process, engine_of, jars

_KAFKA = Jars("org.apache.kafka:kafka_2.13:4.1.0", groups=None, beside=("kafka-tools",))
_SPARK = "4.2"
_SOURCE = Jars(
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    groups=("org.apache.spark", "org.apache.kafka", "org.apache.commons"),
    without=("spark-core_2.13", "spark-sql_2.13", "spark-catalyst_2.13"),
)
"""Spark's source for Kafka. That of 4.1.1 ends a stream with a NullPointerException in `metrics` if its first batch is one that
was begun before the driver was killed. For 4.3 there was none on 2026-11-27."""
TOPIC, _PARTITIONS = "bank", 3
_WAIT_S = 120
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={logs}
num.partitions={partitions}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
"""
_SYNC = """
import os, sys
from pathlib import Path
from pyspark.sql import SparkSession
import lsmlake
folder, tables, address, master, jars, options = Path(sys.argv[1]), *sys.argv[2:]
given = {{
    "spark.jars": jars,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": options,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": options,
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.task.maxFailures": "40",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",  # little data: Spark interprets queries
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timeType.enabled": "true",
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.local.dir": str(folder / "spark"),
}}
builder = SparkSession.builder.master(master)
for name, value in given.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
source = {{"kafka.bootstrap.servers": address, "subscribe": {topic!r}, "startingOffsets": "earliest"}}
stream = spark.readStream.format("kafka").options(**source, maxOffsetsPerTrigger=10000).load()
query = lsmlake.connect(folder / "lake", spark=spark).sync(
    stream, format="debezium-json", database="bank", tables=tables, primary_keys={keys!r}, checkpoint=str(folder / "checkpoint"),
    trigger={{"processingTime": "1 second"}},
)
query.awaitTermination()
"""


@contextmanager
def way(folder: Path, database: Database) -> Iterator[list[Process]]:
    """Debezium's engine, the driver of the stream, and its executors, as long as the context lasts. Raises Missing."""
    if pyspark.__version__.rpartition(".")[0] != _SPARK:
        raise Missing(f"the source for Kafka is that of Spark {_SPARK}, and pyspark is {pyspark.__version__}")
    source = ",".join(map(str, jars(_SOURCE)))
    with _broker(folder) as address, Cluster(folder / "cluster") as cluster:
        arguments = [folder, database.changes, address, cluster.url, source, QUICK]
        command = [sys.executable, "-c", _SYNC.format(topic=TOPIC, keys=KEYS), *arguments]
        executors = Executors(cluster)
        driver = Driver("driver", command, folder / "sync.log", executors=executors)
        yield [engine_of(folder, database, address, TOPIC, str(_PARTITIONS)), driver, executors]


@dataclass
class Executors:
    """The executors of a cluster, of which one is killed. Spark starts another."""

    cluster: Cluster
    name: str = "executors"
    kills: int = 0
    ends: list[int] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(0))

    def start(self) -> None:
        """Spark starts them."""

    keep = stop = start

    def kill(self) -> None:
        if found := self.cluster.executors():
            with suppress(psutil.NoSuchProcess):
                self.chance.choice(found).kill()
                self.kills += 1


@dataclass
class Driver(Killed):
    """The driver of the stream. It is killed while it has executors: one that is still starting has nothing to lose."""

    executors: Executors = field(kw_only=True)

    def kill(self) -> None:
        if self.executors.cluster.executors():
            super().kill()


@contextmanager
def _broker(folder: Path) -> Iterator[str]:
    """The address of a broker that is its own controller, with the topic."""
    path = ":".join(map(str, jars(_KAFKA)))
    place, controller = home(folder, "kafka"), home(folder, "controller")
    settings = folder / "kafka.properties"
    words = {"port": place.port, "controller": controller.port, "logs": place.folder, "partitions": _PARTITIONS}
    settings.write_text(_SETTINGS.format(**words))
    java = ["java", *QUICK.split(), "-Xmx512m", "-cp", path]
    address = f"{HOSTS[1]}:{place.port}"
    with (folder / "kafka.log").open("w") as log:
        how = {"stdout": log, "stderr": log}
        format_ = ["kafka.tools.StorageTool", "format", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--config", str(settings)]
        subprocess.run([*java, *format_], check=True, **how)
        process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], **how)
        try:
            topic = ["--create", "--if-not-exists", "--topic", TOPIC, "--partitions", str(_PARTITIONS)]
            command = [*java, "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", address, *topic]
            end = time.monotonic() + _WAIT_S
            while subprocess.run(command, **how).returncode:
                if process.poll() is not None or time.monotonic() > end:
                    raise Missing(f"Kafka does not start: {(folder / 'kafka.log').read_text()[-2000:]}")
            yield address
        finally:
            process.kill()
            process.wait()
