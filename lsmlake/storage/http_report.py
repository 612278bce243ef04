"""Posts JSON to an address, for callbacks. The only call of the network beside object stores and catalogs."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException

from lsmlake.errors import StorageFailed

_SECONDS = 10


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An answer that leads elsewhere is a failure: the option of the table names the address."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def post(url: str, content: Mapping[str, object]) -> None:
    """Posts an object. Raises StorageFailed unless the answer is a success, within some seconds."""
    body = json.dumps(content).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
    try:
        with _OPENER.open(request, timeout=_SECONDS):
            return
    except (OSError, HTTPException, ValueError) as failed:
        raise StorageFailed(
            "a callback was not taken", where=url, found=failed, cure="see the service at this address"
        ) from failed
