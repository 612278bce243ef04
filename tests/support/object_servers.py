"""Servers on loopback that speak the protocols of object stores: moto for S3, Azurite for Azure; and of AWS Glue: moto.

moto comes with the extra "test". Azurite is a program of Node.js: tests use it if LSMLAKE_AZURITE names its command or
`azurite-blob` is installed; otherwise they are skipped, or fail if LSMLAKE_REQUIRE_AZURITE is set.
"""

from __future__ import annotations

import base64
import hmac
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

SECRET = "NotToBeSeenAnywhere"
BUCKET = "bucket"
_AZURE_ACCOUNT = "account"
_AZURE_KEY = "Tm90VG9CZVNlZW5Bbnl3aGVyZQ=="
_STARTUP_S = 30
_LINE = "\n"
_numbers = count()


class Server(NamedTuple):
    """A running server: its address, and the address of a bucket with the options to reach it."""

    endpoint: str
    url: str
    options: Mapping[str, object]

    def warehouse(self) -> str:
        """An address where nothing is yet."""
        return f"{self.url}/w{next(_numbers)}"


@contextmanager
def s3_server() -> Iterator[Server]:
    with _moto(str(Path(__file__).with_name("s3_program.py"))) as endpoint:
        yield s3_bucket(endpoint, BUCKET)


def s3_bucket(endpoint: str, name: str) -> Server:
    """A new bucket of a running server, which lists the objects of a bucket in linear time."""
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")).close()
    return Server(endpoint, f"s3://{name}", s3_options(endpoint))


def s3_options(endpoint: str) -> dict[str, object]:
    return {"endpoint": endpoint, "access_key_id": "key", "secret_access_key": SECRET, "region": "us-east-1"}


@contextmanager
def glue_server() -> Iterator[dict[str, str]]:
    """The properties of an empty catalog, as PyIceberg takes them."""
    with _moto(str(Path(__file__).with_name("glue_program.py"))) as endpoint:
        keys = {"glue.access-key-id": "key", "glue.secret-access-key": SECRET}
        yield {"type": "glue", "glue.endpoint": endpoint, "glue.region": "us-east-1", **keys}


@contextmanager
def _moto(*program: str) -> Iterator[str]:
    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}"
    with _running([sys.executable, *program, "-H", "127.0.0.1", "-p", str(port)], f"{endpoint}/moto-api/"):
        yield endpoint


@contextmanager
def azure_server() -> Iterator[Server]:
    program = os.environ.get("LSMLAKE_AZURITE") or shutil.which("azurite-blob")
    if not program:
        missing = "Azurite is not installed: npm install -g azurite, or set LSMLAKE_AZURITE"
        (pytest.fail if os.environ.get("LSMLAKE_REQUIRE_AZURITE") else pytest.skip)(missing)
    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}/{_AZURE_ACCOUNT}"
    command = [
        program,
        "--silent",
        "--inMemoryPersistence",
        "--skipApiVersionCheck",
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
    ]
    with _running(command, endpoint, {"AZURITE_ACCOUNTS": f"{_AZURE_ACCOUNT}:{_AZURE_KEY}"}):
        _create_container(endpoint)
        yield Server(endpoint, f"az://{BUCKET}", azure_options(endpoint))


def azure_options(endpoint: str) -> dict[str, object]:
    return {"endpoint": endpoint, "account_name": _AZURE_ACCOUNT, "account_key": _AZURE_KEY}


def _create_container(endpoint: str) -> None:
    """obstore has no call for it. The request is signed with the key of the account."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    signed = f"PUT{_LINE * 5}text/plain{_LINE * 7}" + "".join(f"{name}:{value}\n" for name, value in headers.items())
    signed += f"/{_AZURE_ACCOUNT}/{_AZURE_ACCOUNT}/{BUCKET}\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(_AZURE_KEY), signed.encode(), "sha256")).decode()
    headers |= {"Content-Type": "text/plain", "Authorization": f"SharedKey {_AZURE_ACCOUNT}:{signature}"}
    url = f"{endpoint}/{BUCKET}?restype=container"
    urllib.request.urlopen(urllib.request.Request(url, data=b"", method="PUT", headers=headers)).close()


@contextmanager
def _running(command: Sequence[str], url: str, environment: Mapping[str, str] = {}) -> Iterator[None]:
    """Starts a program, waits until it answers, and ends it."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment})
    try:
        ends = time.monotonic() + _STARTUP_S
        while not _answers(url):
            assert server.poll() is None and time.monotonic() < ends, f"{command[0]} does not start"
            time.sleep(0.05)
        yield
    finally:
        server.kill()
        server.wait()


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
