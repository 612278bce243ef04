"""The processes that are killed and started again: Debezium's engine, and the sync; and the way of events over files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bench.peers.roster import Jars
from bench.peers.setup import HOME, NotReady, jars_of, provide
from pipelines.bank import KEYS
from pipelines.databases import Database, Missing

_DEBEZIUM = Jars(
    "io.debezium:debezium-embedded:3.5.0.Final", groups=None, beside=("debezium-connector-postgres", "debezium-connector-mariadb")
)
_ROOT = Path(__file__).parents[2]
_SYNC = """
import sys, time, lsmlake
from pathlib import Path
folder, tables, keys = Path(sys.argv[1]), sys.argv[2], {keys!r}
lake = lsmlake.connect(folder / "lake")
while True:
    report = lake.sync(
        folder / "events", format="debezium-json", database="bank", tables=tables, primary_keys=keys,
        checkpoint=folder / "checkpoint",
    )
    for one in report.tables:
        print(one.table, one.rows, one.rejected, *one.reasons, flush=True)
    time.sleep(0.2)
"""


class Process(Protocol):
    """What is killed and started again. `ends`: the codes with which it ended by itself."""

    name: str
    kills: int
    ends: list[int]

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def keep(self) -> None: ...

    def stop(self) -> None: ...


@dataclass
class Killed:
    """A process that is started again after it was killed, with those that it has started."""

    name: str
    command: Sequence[object]
    log: Path
    kills: int = 0
    ends: list[int] = field(default_factory=list)
    process: subprocess.Popen | None = None

    def start(self) -> None:
        """Starts the process if it does not run."""
        if self.process is not None and self.process.poll() is None:
            return
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        with self.log.open("a") as log:
            how = {"stdout": log, "stderr": log, "env": environment, "start_new_session": True}
            self.process = subprocess.Popen(list(map(str, self.command)), **how)

    def kill(self) -> None:
        self.stop()
        self.kills += 1

    def keep(self) -> None:
        """Starts the process again if it has ended by itself, which is a fault, and is told."""
        if self.process is not None and (code := self.process.poll()) is not None:
            self.ends.append(code)
            self.start()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextmanager
def way(folder: Path, database: Database) -> Iterator[list[Process]]:
    """Debezium's engine, which writes files, and the sync in a process. Raises Missing."""
    yield [engine_of(folder, database), sync_of(folder, database)]


def sync_of(folder: Path, database: Database) -> Killed:
    """The process that applies the events."""
    return Killed("sync", [sys.executable, "-c", _SYNC.format(keys=KEYS), folder, database.changes], folder / "sync.log")


def jars(wanted: Jars) -> list[Path]:
    """Jars of Maven, which come when they are not there. Raises Missing."""
    try:
        if failed := provide(HOME, (), (wanted,)):
            raise Missing(f"{wanted.coordinates} is not there: {next(iter(failed.values()))}")
        return jars_of(HOME, wanted)
    except NotReady as missing:
        raise Missing(f"{wanted.coordinates} is not there: {missing}") from missing


def engine_of(folder: Path, database: Database, *broker: str) -> Killed:
    """Debezium's engine. Raises Missing without Java or its jars.

    Args:
        broker: the address of Kafka, the topic and its number of partitions, where the events go; none: to files.
    """
    path, classes = ":".join(map(str, jars(_DEBEZIUM))), folder / "classes"
    if shutil.which("javac") is None:
        raise Missing("Java 17 is not installed: there is no javac")
    _call(["javac", "-cp", path, "-d", classes, Path(__file__).parent / "Events.java"])
    (folder / "events").mkdir()
    (folder / "engine.properties").write_text(
        "\n".join(f"{name}={value}" for name, value in _properties(folder, database).items())
    )
    java = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", f"{classes}:{path}", "Events"]
    return Killed("engine", [*java, folder / "engine.properties", folder / "events", *broker], folder / "engine.log")


def _call(command: Sequence[object]) -> None:
    subprocess.run(list(map(str, command)), check=True)


def _properties(folder: Path, database: Database) -> dict[str, object]:
    return {
        "name": "bank",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": folder / "offsets",
        "offset.flush.interval.ms": 500,
        "database.hostname": "127.0.0.1",
        "database.port": database.port,
        "topic.prefix": "bank",
        "skipped.operations": "none",
        "tombstones.on.delete": "false",
        "key.converter.schemas.enable": "true",
        "value.converter.schemas.enable": "true",
        **database.connector(folder),
    }
