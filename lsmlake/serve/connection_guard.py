"""A connection of HTTP whose client must send the head of a request in time. uvicorn limits only how long a connection may be
idle after an answer."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 20
"""The longest time from the first byte of a connection or a request to the end of its head."""


class TimedConnection(H11Protocol):
    """Closes the connection if the head of a request does not come within `HEAD_SECONDS`."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head():
            self._wait()
        else:
            self._wait_no_more()

    def _in_head(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._late)

    def _wait_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self._in_head():
            self.transport.abort()
