"""Runs the server until a signal comes: HTTP by uvicorn in the main thread, and beside it the maintainer.

The ports are taken first, so that the line with the addresses is true when it is printed.
"""

from __future__ import annotations

import logging
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import uvicorn
from starlette.types import ASGIApp

from lsmlake.api.lake import Lake
from lsmlake.api.maintenance_run import MaintenanceOrder, told
from lsmlake.api.metrics import Metrics
from lsmlake.beside import Signal, Work, begin
from lsmlake.errors import InvalidQuery, Wording
from lsmlake.serve.application import application
from lsmlake.serve.connection_guard import TimedConnection
from lsmlake.serve.flight_sql.flight_server import FlightSqlServer
from lsmlake.serve.rest_catalog.catalog_routes import ROOT as CATALOG_ROOT
from lsmlake.serve.serve_settings import ServeSettings

_log = logging.getLogger("lsmlake.serve")

END_SECONDS = 5
"""How long requests in progress may take after a signal to end."""


def serve(lake: Lake, settings: ServeSettings, ready: Callable[[str], object], maintenance: MaintenanceOrder | None) -> None:
    """Serves a lake until SIGINT, which raises KeyboardInterrupt, or SIGTERM.

    Args:
        ready: called with a line of text, the addresses, when clients can connect.
        maintenance: does the work of `lsmlake maintain` in this process.

    Raises:
        InvalidQuery: a port is taken, or the certificate cannot be used.
        MissingDependency: a package is not installed.
    """
    metrics = Metrics(lake)
    with ExitStack() as stack:
        listening = stack.enter_context(closing(_listening(settings.host, settings.port)))
        server = uvicorn.Server(config_of(application(lake, settings, metrics), settings))
        stack.enter_context(_ignored(signal.SIGTERM))
        sql = FlightSqlServer(lake, settings)
        stack.callback(sql.end)
        if maintenance is not None:
            stack.enter_context(_maintained(lake, maintenance, metrics))
        scheme = "http" if settings.tls is None else "https"
        web = f"{scheme}://{_shown(settings.host)}:{listening.getsockname()[1]}"
        ready(f"serving {lake.env.storage.root}: {web}, catalog of Iceberg {web}{CATALOG_ROOT}, Flight SQL {sql.address}")
        server.run([listening])


def config_of(app: ASGIApp, settings: ServeSettings) -> uvicorn.Config:
    """How uvicorn serves the application. Raises InvalidQuery if the certificate cannot be used."""
    tls = settings.tls
    config = uvicorn.Config(
        app,
        http=TimedConnection,
        ws="none",
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_level="warning",
        timeout_keep_alive=20,
        timeout_graceful_shutdown=END_SECONDS,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as broken:
        what = "the certificate or its key cannot be read"
        cure = Wording("correct tls", command="correct --tls-certificate or --tls-key")
        raise InvalidQuery(what, where="" if tls is None else tls.certificate, found=broken, cure=cure) from None
    return config


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens at this address."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as refused:
        cure = Wording("choose another host or port", command="choose another --host or --port")
        raise InvalidQuery("cannot listen at this address", where=f"{host}:{port}", found=refused, cure=cure) from None


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@contextmanager
def _ignored(number: int) -> Iterator[None]:
    """uvicorn ends at a signal, then gives it to the handler that was there before: none must end the process then."""
    before = signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def _maintained(lake: Lake, order: MaintenanceOrder, metrics: Metrics) -> Iterator[None]:
    """A maintainer in a thread of its own, which ends with the context."""
    stop = Signal()
    every_ms, maintainer = order.every_ms(), order.maintainer(lake.env, lake.runtime, stop)

    def work() -> None:
        for session in maintainer.every((every_ms or 0) / 1000):
            metrics.count(told(session, lake.env.clock()))

    def report(ended: Work) -> None:
        if ended.error is not None:
            _log.error("the maintainer ended, the server goes on: %s", ended.error)

    working = begin(work, report)
    try:
        yield
    finally:
        stop.give()
        working.ended.wait()
