"""A server of moto that speaks the protocol of S3 and puts a delay into every request; a program for `bench.object_store`.

moto reads a whole object for each range of it, as no store does. So data files, which never change, are read from it once.

Prints its port. `POST /-/delay` with milliseconds sets the delay; `POST /-/requests` returns the requests since the last call, as
JSON: kind, then the seconds of a monotonic clock when each began and ended.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

Start = Callable[..., object]


class _Slow:
    """A WSGI application around another one."""

    def __init__(self, inner: Callable[[Mapping[str, Any], Start], Iterable[bytes]]) -> None:
        self._inner, self._delay_s = inner, 0.0
        self._requests: list[tuple[str, float, float]] = []
        self._data: dict[str, tuple[list[tuple[str, str]], bytes]] = {}

    def __call__(self, environ: Mapping[str, Any], start: Start) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path.startswith("/-/"):
            start("200 OK", [("Content-Type", "application/json")])
            return [self._control(path, environ)]
        began = time.monotonic()
        time.sleep(self._delay_s)
        is_data = environ["REQUEST_METHOD"] == "GET" and path.endswith(".parquet")
        answer = self._cut(environ, start) if is_data else b"".join(self._inner(environ, start))
        kind = f"{environ['REQUEST_METHOD']} {path.rpartition('/')[2].partition('-')[0] or 'list'}"
        self._requests.append((kind, began, time.monotonic()))
        return [answer]

    def _cut(self, environ: Mapping[str, Any], start: Start) -> bytes:
        """The answer to a GET of a file that never changes: all of it, or one range."""
        path, wanted = environ["PATH_INFO"], environ.get("HTTP_RANGE", "")
        if path not in self._data:
            answered: list[object] = []
            whole = {name: value for name, value in environ.items() if name != "HTTP_RANGE"}
            data = b"".join(self._inner(whole, lambda *found: answered.extend(found)))
            if not answered[0].startswith("200"):
                start(*answered)
                return data
            self._data[path] = [one for one in answered[1] if one[0].lower() != "content-length"], data
        headers, data = self._data[path]
        if not wanted:
            start("200 OK", [*headers, ("Content-Length", str(len(data)))])
            return data
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        begin = int(first) if first else max(0, len(data) - int(last))
        end = min(len(data), int(last) + 1) if first and last else len(data)
        place = f"bytes {begin}-{end - 1}/{len(data)}"
        start("206 Partial Content", [*headers, ("Content-Length", str(end - begin)), ("Content-Range", place)])
        return data[begin:end]

    def _control(self, path: str, environ: Mapping[str, Any]) -> bytes:
        if path == "/-/delay":
            self._delay_s = float(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))) / 1e3
        found, self._requests = self._requests, []
        return json.dumps(found).encode()


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, _Slow(DomainDispatcherApplication(create_backend_app)), threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()
