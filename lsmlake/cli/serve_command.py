"""The command `serve`: the page, REST catalog, SQL, metrics and health of a warehouse, over HTTP and Flight SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lsmlake.api.maintenance_run import MaintenanceOrder
from lsmlake.cli.argument_reading import take_place
from lsmlake.cli.opening import open_lake
from lsmlake.cli.output import Sentences, emit
from lsmlake.errors import InvalidQuery
from lsmlake.extras import need
from lsmlake.options.option_types import positive_size
from lsmlake.serve.serve_settings import ServeSettings, TlsFiles

Place = Annotated[str | None, typer.Argument(metavar="WAREHOUSE", help="Default: --warehouse.", show_default=False)]
Port = Annotated[int, typer.Option(min=0, max=65535)]


def serve(
    ctx: typer.Context,
    place: Place = None,
    *,
    host: str = "127.0.0.1",
    port: Port = 8181,
    flight_port: Port = 8815,
    token_file: Path | None = None,
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
    write: bool = False,
    maintain: bool = False,
    pass_credentials: bool = False,
    statement_seconds: Annotated[int, typer.Option(min=1)] = 600,
    memory: str = "4gb",
) -> None:
    """Serve a warehouse to other engines, until Ctrl-C or SIGTERM.

    HTTP has a page for people at /, a REST catalog of Iceberg at /iceberg, for DuckDB, PyIceberg, Spark, Trino, Flink and others,
    /metrics for Prometheus, and /health. The second port has SQL over Arrow Flight, for ADBC and JDBC. Clients can only read,
    unless --write is given. The command prints one line with the addresses when clients can connect.

    Args:
        host: The address to listen at. An address that other machines can reach needs --token-file.
        port (N): The port of HTTP; 0: any free port.
        flight_port (N): The port of Flight SQL; 0: any free port.
        token_file (FILE): Tokens, one per line: a client sends one of them as "Authorization: Bearer TOKEN".
        tls_certificate (FILE): The certificate for TLS, in PEM, with its chain.
        tls_key (FILE): The private key of the certificate, in PEM.
        write: Let clients change the warehouse, too.
        maintain: Look after the tables as `lsmlake maintain` does.
        pass_credentials: Give the clients of the catalog the credentials of the object store.
        statement_seconds (N): How long a statement of SQL may take.
        memory (SIZE): The memory that a statement of SQL may use.
    """
    for package in ("starlette", "uvicorn"):
        need(package, "serve")
    from lsmlake.serve.server import serve as run

    if (tls_certificate is None) != (tls_key is None):
        lacks = "--tls-key" if tls_key is None else "--tls-certificate"
        raise InvalidQuery("a certificate and its key belong together", found=f"no {lacks}", cure=f"add {lacks} FILE")
    take_place(ctx, place)
    settings = ServeSettings(
        host=host,
        port=port,
        flight_port=flight_port,
        writes=write,
        tokens=() if token_file is None else _tokens(token_file),
        tls=None if tls_certificate is None else TlsFiles(str(tls_certificate), str(tls_key)),
        passes_credentials=pass_credentials,
        statement_seconds=statement_seconds,
        statement_memory=positive_size.argument("memory", memory, "serve", "correct --memory, or leave it out"),
    )
    lake = open_lake(ctx)
    order = MaintenanceOrder(every="30 s") if maintain else None
    run(lake, settings, lambda line: emit(None, Sentences((line,)), False), order)


def _tokens(file: Path) -> tuple[str, ...]:
    """The tokens in a file, one per line. Raises InvalidQuery."""
    expected = "lines of visible ASCII characters without blanks, each a token"
    try:
        lines = file.read_text("ascii").splitlines()
    except (OSError, ValueError) as broken:
        cure = "correct the file"
        raise InvalidQuery("the tokens cannot be read", where=str(file), expected=expected, found=broken, cure=cure) from None
    tokens = tuple(line.strip() for line in lines if line.strip())
    if not tokens or any(not token.isprintable() or " " in token for token in tokens):
        cure = "write a token, such as that of `openssl rand -hex 32`, into the file"
        what = "the file has no token, or one that no client could send"
        raise InvalidQuery(what, where=str(file), expected=expected, cure=cure)
    return tokens
