"""A server of Trino with the connector for Iceberg, in a JVM of its own. Runs in the environment of the reader Trino."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from trino.dbapi import Connection, connect

PROGRAM = Path(__file__).parent / "TrinoWithIceberg.java"
_OPTIONS = ("-Xmx2g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-modules=jdk.incubator.vector")
LOCAL = {"fs.local.enabled": "true", "local.location": "/"}
"""Properties of a catalog whose files are on this machine."""


@contextmanager
def served(jars: str, java: str, catalog: Mapping[str, str]) -> Iterator[Connection]:
    """A connection, whose catalog is `lake`.

    Args:
        jars: the class path of Trino.
        java: the home of a JDK.
        catalog: the properties of the catalog.
    """
    command = [f"{java}/bin/java", *_OPTIONS, "-cp", jars, str(PROGRAM)]
    command += [f"{name}={value}" for name, value in catalog.items()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        address = urlsplit(server.stdout.readline().strip())
        if not address.hostname:
            raise RuntimeError("Trino did not start; see the log")
        yield connect(host=address.hostname, port=address.port, user="reader", catalog="lake", timezone="UTC")
        server.stdin.close()
