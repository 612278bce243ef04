"""A metastore of Hive, over a database in memory, in a JVM of its own. All of its jars are part of PySpark: Hive 2.3.10.

The variable LSMLAKE_HIVE_METASTORE names another metastore instead, such as thrift://127.0.0.1:9083.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, JVMView, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError

JARS = Path(pyspark.__file__).parent / "jars"
QUICK = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
SETTINGS = {
    "datanucleus.connectionPoolingType": "HikariCP",  # PySpark has no other pool
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    "hive.metastore.warehouse.dir": "file://{folder}",  # of namespaces; tables have their own locations
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
}
START_SECONDS = 60


@contextmanager
def hive_catalog(folder: Path) -> Iterator[str]:
    """The address of an empty metastore, which ends with the context. `folder`: for logs, and the folders of namespaces."""
    if given := os.environ.get("LSMLAKE_HIVE_METASTORE"):
        yield given
        return
    with (folder / "log").open("w") as log:
        (py4j,) = JARS.glob("py4j-*.jar")
        gate, server = launch_gateway(
            jarpath=str(py4j),
            classpath=f"{JARS}/*",
            javaopts=[f"-Dderby.stream.error.file={folder}/derby.log", *QUICK],
            die_on_exit=True,
            return_proc=True,
            redirect_stdout=log,
            redirect_stderr=log,
        )
        java = JavaGateway(gateway_parameters=GatewayParameters(port=gate))
        try:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            Thread(target=_serve, args=(java.jvm, port, folder), daemon=True).start()
            _wait(port)
            yield f"thrift://127.0.0.1:{port}"
        finally:
            java.shutdown()  # else objects of Java that are collected later look for it
            server.kill()
            server.wait()


def _serve(java: JVMView, port: int, folder: Path) -> None:
    hive = java.org.apache.hadoop.hive
    settings = hive.conf.HiveConf()
    for name, value in SETTINGS.items():
        settings.set(name, value.format(folder=folder))
    hive.metastore.txn.TxnDbUtil.prepDb(settings)  # the tables of locks
    try:
        hive.metastore.HiveMetaStore.startMetaStore(port, hive.shims.ShimLoader.getHadoopThriftAuthBridge(), settings)
    except Py4JJavaError:
        raise
    except Py4JError:
        pass  # the JVM was ended


def _wait(port: int) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise RuntimeError("the metastore did not start; see its log")
