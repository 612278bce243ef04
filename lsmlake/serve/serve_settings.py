"""The settings of `lsmlake serve`: addresses, tokens and TLS, and what clients may do."""

from __future__ import annotations

from dataclasses import dataclass, field

from lsmlake.errors import InvalidQuery, Wording

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""The hosts that only this machine reaches."""
_SECONDS, _MEMORY = 600, 4 << 30


@dataclass(frozen=True)
class TlsFiles:
    """The paths of the certificate, with its chain, and of its private key, both in PEM."""

    certificate: str
    key: str


@dataclass(frozen=True)
class ServeSettings:
    """The settings of a server.

    Attributes:
        host: the address to listen at.
        port: the port of HTTP; 0: any.
        flight_port: the port of Flight SQL; 0: any.
        writes: whether clients may change the lake.
        tokens: a request must bear one of them; none: every request from this machine is answered.
        tls: the certificate; None: without TLS.
        passes_credentials: whether the catalog gives its clients the credentials of the store.
        statement_seconds: how long a statement of Flight SQL may take, with the time in which its client reads the rows.
        statement_memory: the memory that a statement of Flight SQL may use, in bytes.

    Raises:
        InvalidQuery: other machines could reach the server without a token.
    """

    host: str = LOOPBACK[0]
    port: int = 8181
    flight_port: int = 8815
    writes: bool = False
    tokens: tuple[str, ...] = field(default=(), repr=False)
    tls: TlsFiles | None = None
    passes_credentials: bool = False
    statement_seconds: int = _SECONDS
    statement_memory: int = _MEMORY

    def __post_init__(self) -> None:
        if self.host not in LOOPBACK and not self.tokens:
            raise InvalidQuery(
                "a server that other machines reach needs a token",
                where=self.host,
                expected=f"one of {', '.join(LOOPBACK)}, or a token",
                cure=Wording("pass tokens", command="add --token-file FILE, or leave --host out"),
            )
