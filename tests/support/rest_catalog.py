"""A REST catalog of Iceberg: the server with which Iceberg tests its own clients, over SQLite, in a JVM of its own.

Ivy, which is part of PySpark, fetches its jars from Maven Central (27 MB) into its cache. What else they need is part of PySpark.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
import requests

SPARK_JARS = Path(pyspark.__file__).parent / "jars"
SHARED = (
    *("hadoop-client-api", "hadoop-client-runtime", "jackson-annotations", "jackson-core", "jackson-databind"),
    *("avro", "RoaringBitmap", "slf4j-api"),
)
"""Jars of PySpark that the server needs, by the beginning of their names."""
FETCHED = (
    *(f"org.apache.iceberg:{name}:1.11.0" for name in ("iceberg-api", "iceberg-bundled-guava", "iceberg-common")),
    "org.apache.iceberg:iceberg-core:1.11.0:,tests",
    "org.apache.iceberg:iceberg-open-api:1.11.0:test-fixtures",
    "com.github.ben-manes.caffeine:caffeine:2.9.3",
    "jakarta.servlet:jakarta.servlet-api:6.0.0",
    "org.apache.httpcomponents.client5:httpclient5:5.6.1",
    "org.apache.httpcomponents.core5:httpcore5:5.4",
    *(f"org.eclipse.jetty:jetty-{name}:12.1.3" for name in ("http", "io", "security", "server", "session", "util")),
    *(f"org.eclipse.jetty.compression:jetty-compression-{name}:12.1.3" for name in ("common", "gzip", "server")),
    "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.3",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)
"""The others: group, name, version, and classifiers."""
IVY = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="lsmlake" module="tests"/><dependencies>{}</dependencies></ivy-module>"""
DEPENDENCY = '<dependency org="{}" name="{}" rev="{}" transitive="false">{}</dependency>'
ARTIFACT = '<artifact name="{}" type="jar" ext="jar" m:classifier="{}"/>'
FETCH_SECONDS, START_SECONDS = 200, 60


@contextmanager
def rest_catalog(folder: Path) -> Iterator[str]:
    """The address of an empty catalog, which ends with the context. `folder`: for jars and the log."""
    jars = os.pathsep.join(map(str, [*fetched(folder / "jars"), *map(spark_jar, SHARED)]))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"REST_PORT": str(port), "WAREHOUSE": f"file://{folder}/warehouse", "URI": f"jdbc:sqlite:{folder}/catalog.db"}
    environment = os.environ | {f"CATALOG_{name}": value for name, value in settings.items()}
    command = [*java(), "-cp", jars, "org.apache.iceberg.rest.RESTCatalogServer"]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=environment) as server,
    ):
        try:
            address = f"http://127.0.0.1:{port}"
            wait(server, address)
            yield address
        finally:
            server.kill()


def fetched(folder: Path) -> list[Path]:
    """The jars of `FETCHED`; skips the test if they cannot be had."""
    folder.mkdir()
    found = []
    for group, name, version, classifiers in ([*one.split(":"), ""][:4] for one in FETCHED):
        artifacts = "".join(ARTIFACT.format(name, one) for one in classifiers.split(","))
        found.append(DEPENDENCY.format(group, name, version, artifacts.replace(' m:classifier=""', "")))
    module = folder / "ivy.xml"
    module.write_text(IVY.format("".join(found)))
    command = [
        *java(),
        "-jar",
        spark_jar("ivy"),
        "-ivy",
        module,
        "-retrieve",
        f"{folder}/[artifact]-[revision](-[classifier]).[ext]",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        pytest.skip("Maven Central does not answer")
    if done.returncode:
        pytest.skip(f"Ivy could not fetch the jars of the catalog: {done.stdout[-500:]}")
    return sorted(folder.glob("*.jar"))


def spark_jar(name: str) -> Path:
    (found,) = SPARK_JARS.glob(f"{name}-[0-9]*.jar")
    return found


def java() -> list[str]:
    home = os.environ.get("JAVA_HOME")
    return [f"{home}/bin/java" if home else shutil.which("java"), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


def wait(server: subprocess.Popen, address: str) -> None:
    end = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < end:
        try:
            requests.get(f"{address}/v1/config", timeout=5).raise_for_status()
            return
        except requests.ConnectionError:
            time.sleep(0.1)
    raise RuntimeError("the server did not start; see its log")
