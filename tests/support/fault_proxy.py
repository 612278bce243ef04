"""A proxy between a client and an HTTP server on loopback that counts requests, tells which follow one another, and makes chosen
ones fail.

    with fault_proxy(server.endpoint) as proxy:
        proxy.fail("reset after", lambda request: request.method == "PUT")

A fault strikes "before" the server sees the request, or "after" it has answered, so that the effect took place and the answer is
lost.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from rounds import Rounds

FAULTS = (
    "503 before",
    "503 after",
    "429 before",
    "reset before",
    "reset after",
    "silence before",
    "silence after",
    "truncated",
    "slow",
    "repeated",
)
_SLOW_PIECES = 5
_SILENCE_S = 30


class Request(NamedTuple):
    """`path`: decoded, without the query. `range`: the header, "" for none. `round`: from 1, of `in_rounds`."""

    method: str
    path: str
    query: str
    range: str
    round: int = 0

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class _Fault:
    def __init__(self, kind: str, strikes: Callable[[Request], bool], times: int) -> None:
        self.kind, self.strikes, self.times = kind, strikes, times


class FaultProxy:
    """`endpoint`: the address to use instead of that of the server. `requests`: those that have ended, faults included.
    `ignores_conditions`: the server never sees If-None-Match."""

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}{self._target.path}"
        self.requests: list[Request] = []
        self.ignores_conditions = False
        self._rounds: Rounds | None = None
        self._faults: list[_Fault] = []
        self._lock, self._stopped = threading.Lock(), threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def fail(self, kind: str, strikes: Callable[[Request], bool] = lambda request: True, times: int = 1) -> None:
        """Make the next requests that `strikes` chooses fail, so many times."""
        assert kind in FAULTS or kind.split()[0].isdigit()
        self._faults.append(_Fault(kind, strikes, times))

    def calm(self) -> bool:
        """No further faults; returns whether all have struck."""
        with self._lock:
            struck = all(fault.times == 0 for fault in self._faults)
            self._faults = []
        return struck

    @contextmanager
    def in_rounds(self) -> Iterator[None]:
        """Inside, requests that do not wait for one another's answers are answered together as one `round`."""
        self._rounds = rounds = Rounds()
        try:
            yield
        finally:
            self._rounds = None
            rounds.close()

    def close(self) -> None:
        self._stopped.set()
        self._listener.close()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            with suppress(OSError):
                client, _ = self._listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as source, suppress(OSError, HTTPException):
            while (head := _read_head(source)) and self._answer(client, head, source.read(_length(head))):
                pass

    def _answer(self, client: socket.socket, head: bytes, body: bytes) -> bool:
        """Handles one request; returns whether the connection can be used again."""
        line, *headers = head.decode("latin-1").split("\r\n")
        method, target, _ = line.split(" ")
        found = {name.lower(): value.strip() for name, _, value in (header.partition(":") for header in headers)}
        url = urlsplit(target)
        request = Request(method, unquote(url.path), url.query, found.get("range", ""))
        with self._lock:
            fault = next((fault for fault in self._faults if fault.times and fault.strikes(request)), None)
            if fault is not None:
                fault.times -= 1
        kind = fault.kind if fault else ""
        if (rounds := self._rounds) is not None:
            request = request._replace(round=rounds.enter())
        try:
            answer = b""
            if not kind.endswith("before"):
                for _ in range(2 if kind == "repeated" else 1):
                    answer = self._forward(method, head, body)
            with self._lock:
                self.requests.append(request)
        finally:
            if rounds is not None:
                rounds.leave(request.round)
        return self._send(client, kind, answer)

    def _forward(self, method: str, head: bytes, body: bytes) -> bytes:
        with socket.create_connection((self._target.hostname, self._target.port)) as server:
            head = head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
            if self.ignores_conditions:
                head = re.sub(rb"(?i)\r\nif-none-match:", b"\r\nx-ignored:", head)
            server.sendall(head + b"\r\n\r\n" + body)
            response = HTTPResponse(server, method=method)
            response.begin()
            data = response.read()
        kept = [(name, value) for name, value in response.getheaders() if name.lower() not in _OF_CONNECTION]
        length = response.getheader("Content-Length") if method == "HEAD" else str(len(data))
        kept += [("Content-Length", length)] if length is not None else []
        lines = [f"HTTP/1.1 {response.status} {response.reason}", *(f"{name}: {value}" for name, value in kept)]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data

    def _send(self, client: socket.socket, kind: str, answer: bytes) -> bool:
        word = kind.split()[0] if kind else ""
        if word.isdigit():
            client.sendall(f"HTTP/1.1 {word} Fault\r\nContent-Length: 0\r\n\r\n".encode())
            return True
        if word == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if word == "silence":
            self._stopped.wait(_SILENCE_S)
            return False
        if word == "truncated":
            body = len(answer) - answer.index(b"\r\n\r\n") - 4
            client.sendall(answer[: len(answer) - max(1, body // 2)])
            return False
        if word == "slow":
            step = max(1, -(-len(answer) // _SLOW_PIECES))
            for start in range(0, len(answer), step):
                client.sendall(answer[start : start + step])
                self._stopped.wait(0.01)
            return True
        client.sendall(answer)
        return True


_OF_CONNECTION = ("connection", "content-length", "transfer-encoding", "keep-alive")


def _read_head(source) -> bytes:
    """The request line and the headers, without the empty line; nothing at the end of the connection."""
    lines = []
    while (line := source.readline()) not in (b"", b"\r\n"):
        lines.append(line)
    return b"".join(lines).removesuffix(b"\r\n")


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


@contextmanager
def fault_proxy(endpoint: str) -> Iterator[FaultProxy]:
    proxy = FaultProxy(endpoint)
    try:
        yield proxy
    finally:
        proxy.close()
