"""`lsmlake serve` as a process: the line that it prints, other programs at its addresses, TLS, many requests, signals."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import re
import signal
import socket
import ssl
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import pytest
import uvicorn
from adbc_driver_flightsql import DatabaseOptions
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from serving import Serving, serving
from typer.testing import CliRunner

import lsmlake
from lsmlake.beside import begin
from lsmlake.cli.app import app
from lsmlake.cli.docs import DOCUMENTS
from lsmlake.serve import connection_guard
from lsmlake.serve.application import application
from lsmlake.serve.serve_settings import ServeSettings
from lsmlake.serve.server import config_of

pytest.importorskip("pyiceberg.catalog.rest")
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("serve") / "lake"
    lake = lsmlake.connect(folder)
    lake.create_database("sales")
    columns = "order_id BIGINT NOT NULL, status STRING, amount DOUBLE"
    orders = lake.create_table("sales.orders", columns, primary_key=["order_id"], options={"bucket": 1})
    orders.upsert([{"order_id": id, "status": "open", "amount": 4.0 * id} for id in range(5)])
    orders.compact(full=True)
    return folder


@pytest.fixture
def token_file(tmp_path) -> Path:
    file = tmp_path / "tokens"
    file.write_text(f"other\n\n {TOKEN}\n")
    return file


def test_other_programs_find_the_tables_at_the_addresses(warehouse):
    """All of one server: each takes a second to start."""
    with serving(warehouse) as server:
        with urllib.request.urlopen(f"{server.web}/health") as answer:
            assert json.load(answer)["status"] == "ok"
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(f"{server.web}/metrics?table=sales.orders")
        with urllib.request.urlopen(f"{server.web}/metrics") as answer:
            assert b'lsmlake_rows{table="sales.orders"} 5.0' in answer.read()
        with closing(load_catalog("lake", type="rest", uri=server.catalog, warehouse="lake")) as catalog:
            assert (catalog.list_namespaces(), catalog.list_tables("sales")) == ([("sales",)], [("sales", "orders")])
            table = catalog.load_table("sales.orders")
            assert sorted(table.scan().to_arrow()["order_id"].to_pylist()) == list(range(5))
            lsmlake.connect(warehouse).table("sales.orders").upsert([{"order_id": 9, "status": "new", "amount": 1.0}])
            lsmlake.connect(warehouse).table("sales.orders").compact(full=True)
            assert table.refresh().scan().to_arrow().num_rows == 6
            with pytest.raises(NoSuchTableError):
                catalog.load_table("sales.none")
            with pytest.raises(NotImplementedError):
                catalog.create_namespace("neu")
        with closing(dbapi.connect(server.flight, autocommit=True)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("SELECT count(*) FROM sales.orders")
            assert cursor.fetchall() == [(6,)]
        run_page(server)
        assert server.end(signal.SIGTERM) == 0


def run_page(server: Serving) -> None:
    """The programs of the page of the documents."""
    addresses = {"http://127.0.0.1:8181": server.web, "grpc://127.0.0.1:8815": server.flight}
    programs = re.findall(r"^```python\n(.*?)^```", DOCUMENTS["serve"].read_text(), re.M | re.S)
    assert len(programs) == 2
    for program in programs:
        exec(re.sub("|".join(addresses), lambda found: addresses[found[0]], program), {})


def answer_of(connection: socket.socket) -> bytes:
    """An answer of /health, whose body ends it."""
    found = b""
    while not found.endswith(b"}"):
        found += connection.recv(5000)
    return found


def test_ctrl_c_ends_the_server_beside_clients_that_do_nothing(warehouse):
    """One has sent nothing, one a part of a request, and one keeps its connection for the next request."""
    with serving(warehouse) as server:
        host, port = server.web.removeprefix("http://").split(":")
        sockets = [socket.create_connection((host, int(port))) for _ in range(3)]
        sockets[1].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        sockets[2].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer_of(sockets[2]).startswith(b"HTTP/1.1 200 OK")
        start = time.monotonic()
        assert server.end(signal.SIGINT) == 130
        assert time.monotonic() - start < 15
        assert server.process.stderr.read() == "interrupted\n"
        for one in sockets:
            one.close()


def test_a_thousand_requests_at_once_are_answered(warehouse):
    with serving(warehouse) as server:

        def load(number: int) -> int:
            with urllib.request.urlopen(
                f"{server.catalog}/v1/namespaces/sales/tables/orders?referenced-by={number}", timeout=60
            ) as answer:
                return json.load(answer)["metadata"]["current-snapshot-id"]

        with ThreadPoolExecutor(200) as threads:
            found = set(threads.map(load, range(1000)))
        assert len(found) == 1
        assert server.end() == 0


def test_tokens_and_tls(warehouse, token_file, tmp_path, monkeypatch):
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # which PyIceberg would follow instead
        monkeypatch.delenv(name, raising=False)
    certificate, key = certified(tmp_path)
    options = [
        "--token-file",
        str(token_file),
        "--tls-certificate",
        str(certificate),
        "--tls-key",
        str(key),
        "--host",
        "127.0.0.1",
    ]
    with serving(warehouse, *options) as server:
        assert server.web.startswith("https://") and server.flight.startswith("grpc+tls://")
        trusting = ssl.create_default_context(cafile=str(certificate))
        asked = urllib.request.Request(f"{server.catalog}/v1/namespaces", headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(asked, context=trusting) as answer:
            assert json.load(answer)["namespaces"] == [["sales"]]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{server.catalog}/v1/namespaces", context=trusting)
        ssl_of = {"cabundle": str(certificate)}
        with closing(load_catalog("lake", type="rest", uri=server.catalog, token=TOKEN, ssl=ssl_of)) as catalog:
            assert catalog.list_tables("sales") == [("sales", "orders")]
        given = {
            DatabaseOptions.TLS_ROOT_CERTS.value: certificate.read_text(),
            DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {TOKEN}",
        }
        with closing(dbapi.connect(server.flight, db_kwargs=given, autocommit=True)) as one, closing(one.cursor()) as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchall() == [(1,)]


def certified(folder: Path) -> tuple[Path, Path]:
    """The files of a certificate of this machine that signs itself, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    now = dt.datetime.now(dt.timezone.utc)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + dt.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(*private))
    return folder / "certificate.pem", folder / "key.pem"


def test_a_server_looks_after_the_tables(tmp_path):
    lake = lsmlake.connect(tmp_path / "lake")
    lake.create_database("sales")
    options = {"bucket": 1, "write-only": "true", "num-sorted-run.compaction-trigger": "3"}
    orders = lake.create_table("sales.orders", "id BIGINT NOT NULL", primary_key=["id"], options=options)
    for id in range(6):
        orders.upsert([{"id": id}])
    with serving(tmp_path / "lake", "--maintain") as server:
        ends, text = time.monotonic() + 60, ""
        while 'kind="compact",outcome="done"' not in text and time.monotonic() < ends:
            time.sleep(0.2)
            text = urllib.request.urlopen(f"{server.web}/metrics").read().decode()
        assert 'lsmlake_maintenance_works_total{kind="compact",outcome="done",table="sales.orders"} 1.0' in text
        assert server.end() == 0
    assert len(orders.files()) == 1


# -- connections whose clients do not send ----------------------------------------------------------------------------


def test_a_head_that_does_not_come_is_given_up(warehouse, monkeypatch):
    """In the first request of a connection, and in a later one."""
    monkeypatch.setattr(connection_guard, "HEAD_SECONDS", 0.5)
    settings = ServeSettings(port=0)
    server = uvicorn.Server(config_of(application(lsmlake.connect(warehouse), settings), settings))
    listening = socket.create_server(("127.0.0.1", 0))
    running = begin(lambda: server.run([listening]))
    try:
        silent, partial, kept = (socket.create_connection(listening.getsockname(), timeout=20) for _ in range(3))
        partial.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ")
        for _ in range(2):
            kept.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert answer_of(kept).startswith(b"HTTP/1.1 200 OK")
        kept.sendall(b"GET /hea")
        for one in (silent, partial, kept):
            with suppress(ConnectionResetError):
                assert one.recv(100) == b""
            one.close()
    finally:
        server.should_exit = True
        running.result()
        listening.close()


# -- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--host", "0.0.0.0"], "a server that other machines reach needs a token"),
        (["--tls-certificate", "c.pem"], "a certificate and its key belong together, found no --tls-key"),
        (["--tls-key", "k.pem"], "found no --tls-certificate"),
        (["--tls-key", "k.pem", "--tls-certificate", "c.pem"], "the certificate or its key cannot be read"),
        (["--token-file", "none"], "the tokens cannot be read"),
        (["--token-file", "empty"], "the file has no token"),
        (["--token-file", "blank"], "one that no client could send"),
        (["--memory", "much"], "--memory has an invalid value"),
        (["--pass-credentials"], "there are no credentials to pass on"),
        (["--port", "TAKEN"], "cannot listen at this address"),
        (["--flight-port", "TAKEN"], "cannot serve Flight SQL here"),
        (["--host", "no.such.host.invalid", "--token-file", "tokens"], "cannot listen at this address"),
    ],
)
def test_options_that_cannot_be_obeyed_are_refused(warehouse, tmp_path, monkeypatch, options: list[str], why: str):
    monkeypatch.chdir(tmp_path)
    Path("empty").write_text("\n")
    Path("blank").write_text("two words\n")
    Path("tokens").write_text(TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = [str(taken.getsockname()[1]) if one == "TAKEN" else one for one in options]
        ports = [word for name in ("--port", "--flight-port") if name not in options for word in (name, "0")]
        done = CliRunner().invoke(app, ["serve", str(warehouse), *ports, *given])
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert why in done.stderr and "Traceback" not in done.stderr


def test_a_warehouse_that_does_not_exist_is_named(tmp_path):
    done = CliRunner().invoke(app, ["serve", str(tmp_path / "none")])
    assert done.exit_code == 2 and "no such warehouse" in done.stderr
