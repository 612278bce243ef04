"""A standalone Spark cluster on loopback: a master, and workers that start executors as processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGKILL

import psutil
import pyspark
from spark_support import QUICK_JVM, settings

HOSTS = "localhost", "127.0.0.1"
"""One per worker, two names of one machine: Spark runs the second attempt of a slow task only on another host."""
_GIVEN = [option for option in os.environ.get("SPARK_SUBMIT_OPTS", "").split() if option.startswith(("-XX:Shared", "-Xlog"))]
QUICK = " ".join([QUICK_JVM, *_GIVEN])
"""Options of every JVM: compile fast, not well; start from an archive of classes, if drivers do so."""
EXECUTOR = "CoarseGrainedExecutorBackend"
URL = re.compile(r"Starting Spark master at (\S+)")
WEB = re.compile(r"MasterUI' on port (\d+)")


class Cluster:
    """A context manager; on exit no process is left. `cores`: of each worker, so many tasks run there at once.

    The folder holds the logs, and the files of the executors: their shuffle files are below `work`.
    """

    def __init__(self, folder: Path, *, cores: int = 1) -> None:
        self.folder, self.cores = folder, cores
        self.url = ""
        self._web = ""
        self._processes: list[subprocess.Popen] = []

    def __enter__(self) -> Cluster:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start("master", "master.Master", "--host", HOSTS[1], "--port", "0", "--webui-port", "0")
            log = self.folder / "master"
            self.url = wait(lambda: URL.search(log.read_text()), "the master starts", log)[1]
            self._web = (
                f"http://{HOSTS[1]}:{wait(lambda: WEB.search(log.read_text()), 'the web page of the master', log)[1]}/json/"
            )
            for number, host in enumerate(HOSTS):
                options = "--host", host, "--cores", str(self.cores), "--memory", f"{self.cores}g", "--webui-port", "0"
                self._start(f"worker-{number}", "worker.Worker", *options, "--work-dir", str(self.folder / "work"), self.url)
            wait(lambda: self._status()["aliveworkers"] == len(HOSTS), "the workers register", log)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def executors(self) -> list[psutil.Process]:
        """The processes that run tasks."""
        found = []
        for process in self._processes:
            with suppress(psutil.Error):
                found += [child for child in psutil.Process(process.pid).children() if is_executor(child)]
        return found

    def _start(self, name: str, kind: str, *arguments: str) -> None:
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        given = {
            "SPARK_LOCAL_IP": HOSTS[1],
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": f"{QUICK} -Dspark.master.rest.enabled=false",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
        }
        with (self.folder / name).open("w") as log:
            command = [str(program), f"org.apache.spark.deploy.{kind}", *arguments]
            how = {"stdout": log, "stderr": log, "env": hidden_tree() | given, "cwd": self.folder, "start_new_session": True}
            self._processes.append(subprocess.Popen(command, **how))

    def _status(self) -> dict:
        with urllib.request.urlopen(self._web, timeout=10) as page:
            return json.load(page)

    def _end(self) -> None:
        for process in reversed(self._processes):
            end(process)


def hidden_tree() -> dict[str, str]:
    """The variables of this process without those by which another one could find this source tree."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}


def temporaries(folder: Path) -> dict[str, str]:
    """The variables of this process, with temporary files in the folder: a killed process leaves its own."""
    (folder / "temporary").mkdir(exist_ok=True)
    return {**os.environ, "TMPDIR": str(folder / "temporary")}


def is_executor(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return EXECUTOR in " ".join(process.cmdline())
    return False


def executor_of(task: int) -> psutil.Process:
    """The executor whose Python process has this number: it started the process that starts those of the tasks."""
    return next(process for process in psutil.Process(task).parents() if is_executor(process))


def end(process: subprocess.Popen) -> None:
    """Kills a process and all that it has started."""
    family = []
    with suppress(psutil.Error):
        family = psutil.Process(process.pid).children(recursive=True)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, SIGKILL)
    for child in family:
        with suppress(psutil.Error):
            child.kill()
    process.wait()
    psutil.wait_procs(family, timeout=30)


def wait(found: Callable[[], object], what: str, log: Path | None = None, seconds: float = 120) -> object:
    """The first value that is true. Raises AssertionError with the end of the log if there is none in time."""
    limit = time.monotonic() + seconds
    while not (value := found()):
        told = log.read_text()[-3000:] if log else ""
        assert time.monotonic() < limit, f"not within {seconds} s: {what}\n{told}"
        time.sleep(0.1)
    return value


@contextmanager
def driver_session(master: str, folder: Path, python: str, cores: int, **more: str) -> Iterator[object]:
    """A session on the cluster, with `cores` executors of one core."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = python
    os.environ["SPARK_LOCAL_IP"] = HOSTS[1]
    (folder / "events").mkdir(parents=True, exist_ok=True)
    given = {
        **settings(folder),
        "spark.executor.cores": "1",
        "spark.cores.max": str(cores),
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK,
        "spark.driver.memory": "512m",
        "spark.default.parallelism": "4",
        "spark.locality.wait": "0s",
        "spark.sql.codegen.wholeStage": "false",  # little data: do not compile a query
        "spark.sql.streaming.minBatchesToRetain": "100000",  # the checkpoint tells all that a stream did
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    builder = SparkSession.builder.master(master)
    for name, value in given.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
