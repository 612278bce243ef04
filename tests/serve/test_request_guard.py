"""What every request passes: tokens, the headers Host and Origin, the size and the time of a body; and the headers of answers."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from effort import scaled
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import client_of

import lsmlake
from lsmlake.api.metrics import Metrics
from lsmlake.errors import InvalidQuery
from lsmlake.serve import request_guard
from lsmlake.serve.application import application
from lsmlake.serve.request_guard import OPEN_PATHS, RequestGuard, bears_token
from lsmlake.serve.rest_catalog.catalog_routes import ENDPOINTS, REFUSED, ROOT
from lsmlake.serve.serve_settings import ServeSettings

TOKENS = ("0123456789abcdef", "another-token")
BEARER = {"authorization": f"Bearer {TOKENS[0]}"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> lsmlake.Lake:
    lake = lsmlake.connect(tmp_path_factory.mktemp("guard"))
    lake.create_database("sales")
    lake.create_table("sales.orders", "id BIGINT NOT NULL", primary_key=["id"])
    return lake


def placed(path: str) -> str:
    """A path of the specification with names in the places of its variables."""
    names = {"/{prefix}": "", "{namespace}": "sales", "{table}": "orders", "{view}": "v"}
    return ROOT + re.sub(r"/\{prefix\}|\{\w+\}", lambda found: names[found[0]], path)


def every_route() -> list[tuple[str, str]]:
    found = [(one.method, one.path) for one in ENDPOINTS] + [*REFUSED, ("GET", "/v1/config")]
    return [("GET", "/metrics"), ("GET", "/nothing"), *((method, placed(path)) for method, path in found)]


@pytest.mark.parametrize(("method", "path"), every_route())
def test_a_route_needs_the_token(lake, method: str, path: str):
    client = client_of(lake, tokens=TOKENS)
    for header in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKENS[0]}, {"authorization": f"Basic {TOKENS[0]}"}):
        refused = client.request(method, path, headers=header)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        if method != "HEAD":
            assert refused.json()["error"] == {**refused.json()["error"], "type": "NotAuthorizedException", "code": 401}
    for token in TOKENS:
        assert client.request(method, path, headers={"authorization": f"bearer {token}"}).status_code != 401


def test_health_and_the_files_of_the_page_need_no_token(lake):
    client = client_of(lake, tokens=TOKENS)
    assert client.get("/health").json() == {"status": "ok", "version": lsmlake.__version__}
    issued = client.post("/iceberg/v1/oauth/tokens", data={"grant_type": "client_credentials", "client_secret": TOKENS[0]})
    assert (issued.status_code, issued.json()["error"]) == (400, "unsupported_grant_type")
    assert all(client.get(path).status_code != 401 for path in OPEN_PATHS)


KINDS = st.sampled_from(["Bearer ", "bearer", "BEARER  ", "Basic ", ""])
GIVEN = st.sampled_from([*TOKENS, "", TOKENS[0][:-1], TOKENS[0] + "x", TOKENS[0].upper()])


@settings(max_examples=scaled(200), deadline=None)
@given(st.text(max_size=40) | st.builds(str.__add__, KINDS, GIVEN))
def test_a_header_bears_a_token_only_as_a_whole(header: str):
    words = header.split(" ", 1)
    expected = len(words) == 2 and words[0].lower() == "bearer" and words[1].strip() in TOKENS
    assert bears_token(header, TOKENS) == expected


def test_without_a_token_the_server_is_for_this_machine(lake):
    with pytest.raises(InvalidQuery, match=r"0\.0\.0\.0: a server that other machines reach needs a token"):
        ServeSettings(host="0.0.0.0")
    assert ServeSettings(host="0.0.0.0", tokens=TOKENS).tokens == TOKENS
    assert TOKENS[0] not in repr(ServeSettings(tokens=TOKENS))


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8181", "localhost.evil.example", "", "127.0.0.1.evil:1", "[::2]"])
def test_another_name_of_this_machine_is_refused(lake, host: str):
    assert client_of(lake).get("/health", headers={"host": host}).status_code == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:8181", "[::1]:8181"])
def test_the_names_of_this_machine_are_served(lake, host: str):
    assert client_of(lake).get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://localhost:9999", "http://localhost"])
def test_a_page_of_another_site_is_refused(lake, origin: str):
    """A browser sends such a request without asking first, and only hides the answer from the page."""
    client = client_of(lake, writes=True)
    sent = client.post("/iceberg/v1/namespaces", content=b'{"namespace": ["evil"]}', headers={"origin": origin})
    assert (sent.status_code, lake.databases()) == (403, ["sales"])
    assert client.get("/health", headers={"origin": "http://localhost:8181"}).status_code == 200


def test_every_answer_has_the_headers_that_keep_it_from_other_pages(lake):
    client = client_of(lake, tokens=TOKENS)
    for answer in (client.get("/health"), client.get("/metrics"), client.get("/nothing", headers=BEARER)):
        assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "access-control-allow-origin" not in answer.headers and "server" not in answer.headers


def test_errors_are_those_of_the_catalog_everywhere(lake):
    client = client_of(lake)
    assert client.get("/nothing").json() == {"error": {"message": "Not Found", "type": "NotFoundException", "code": 404}}
    wrong = client.put("/health")
    assert (wrong.status_code, wrong.json()["error"]["type"]) == (405, "MethodNotAllowedException")
    assert "GET" in wrong.headers["allow"]


def test_an_error_of_the_server_itself_is_an_answer_and_a_line_in_the_log(lake, monkeypatch, caplog):
    def broken(self) -> bytes:
        raise ValueError("no such thing")

    monkeypatch.setattr(Metrics, "text", broken)
    answer = client_of(lake).get("/metrics")
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "InternalServerError")
    assert "ValueError: no such thing" in answer.json()["error"]["message"] and "x-frame-options" in answer.headers
    assert [record.getMessage() for record in caplog.records] == ["GET /metrics failed"]


# -- bodies -----------------------------------------------------------------------------------------------------------


def sent(app, messages, headers=(), path="/iceberg/v1/namespaces", method="POST") -> list[dict]:
    """What the application answers to a request that comes in these messages; None: nothing more comes."""
    left, answers = list(messages), []

    async def receive() -> dict:
        if left and left[0] is not None:
            return left.pop(0)
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def send(message) -> None:
        answers.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(errors="replace"),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), *headers],
    }
    asyncio.run(asyncio.wait_for(app(scope, receive, send), 20))
    return answers


def status(answers: list[dict]) -> int:
    return answers[0]["status"]


def chunk(data: bytes, more: bool = True) -> dict:
    return {"type": "http.request", "body": data, "more_body": more}


def test_a_large_body_is_refused_before_it_is_read(lake):
    app = application(lake, ServeSettings(writes=True))
    announced = [(b"content-length", str(request_guard.BODY_MAX + 1).encode())]
    assert status(sent(app, [None], announced)) == 413
    assert status(sent(app, [None], [(b"content-length", b"9" * 40)])) == 413
    assert status(sent(app, [None], [(b"content-length", b"-1")])) == 413


def test_a_large_body_that_is_not_announced_is_refused_when_it_is_too_large(lake):
    app = application(lake, ServeSettings(writes=True))
    half = bytes(request_guard.BODY_MAX // 2)
    assert status(sent(app, [chunk(half), chunk(half), chunk(b"x"), None])) == 413
    whole = sent(app, [chunk(half), chunk(half, False)])
    assert status(whole) == 400 and b"no JSON" in whole[1]["body"]


def test_a_body_that_does_not_come_is_given_up(lake, monkeypatch):
    monkeypatch.setattr(request_guard, "BODY_SECONDS", 0.2)
    app = application(lake, ServeSettings(writes=True))
    assert status(sent(app, [chunk(b"{"), None])) == 408


def test_what_comes_after_a_body_has_no_time_limit(monkeypatch):
    """Starlette waits there for the end of the connection while it sends a long answer."""
    monkeypatch.setattr(request_guard, "BODY_SECONDS", 0.1)

    async def app(scope, receive, send) -> None:
        assert (await receive())["body"] == b"all"
        waiting = asyncio.ensure_future(receive())
        await asyncio.sleep(0.3)
        assert not waiting.done()
        waiting.cancel()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    assert status(sent(RequestGuard(app, ServeSettings()), [chunk(b"all", False), None])) == 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
BODIES = st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()) | st.fixed_dictionaries(
    {"namespace": JSON, "properties": JSON}
).map(lambda value: json.dumps(value).encode())  # fmt: skip


@settings(max_examples=scaled(150), deadline=None)
@given(st.sampled_from([(one.method, one.path) for one in ENDPOINTS if one.method == "POST"] + list(REFUSED)), BODIES)
def test_no_body_makes_the_server_fail(scratch, request_of, body: bytes):
    method, path = request_of
    client, _ = scratch
    answer = client.request(method, placed(path), content=body)
    assert answer.status_code in (200, 204, 400, 404, 406, 409), answer.text
    if answer.status_code >= 400:
        assert answer.json()["error"]["code"] == answer.status_code


PARTS = st.text(max_size=12) | st.sampled_from(
    ["..", ".", "sales", "orders", "%2e%2e", "..%2f..", "sales\x1fx", "a\x00b", "~", "C:", "\\"]
)


@settings(max_examples=scaled(200), deadline=None)
@given(
    st.sampled_from(["namespaces/{}", "namespaces/{}/tables", "namespaces/{}/tables/{}", "namespaces/{}/views/{}"]), PARTS, PARTS
)
def test_no_name_leads_out_of_the_warehouse(scratch, path: str, first: str, second: str):
    """The path as a server has it, without the help of a client that removes dots."""
    client, folder = scratch
    (folder.parent / "secret.db" / "orders" / "schema").mkdir(parents=True, exist_ok=True)
    answers = sent(client.app, [chunk(b"", False)], path=f"{ROOT}/v1/{path.format(first, second)}", method="GET")
    assert status(answers) in (200, 400, 404)
    assert status(answers) != 200 or first == "sales"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """A client that may write, and the folder of its warehouse."""
    folder = tmp_path_factory.mktemp("scratch") / "lake"
    lake = lsmlake.connect(folder)
    lake.create_database("sales")
    lake.create_table("sales.orders", "id BIGINT NOT NULL", primary_key=["id"])
    return client_of(lake, writes=True), folder
