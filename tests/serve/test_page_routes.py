"""The routes of the page: its files, the data with their tags, errors with their parts, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from page_warehouse import HOSTILE, small
from serving import client_of
from starlette.testclient import TestClient
from typer.testing import CliRunner

from lsmlake import Lake, __version__
from lsmlake.cli.app import app
from lsmlake.errors import InvalidQuery
from lsmlake.serve.page.page_files import in_one_file, json_in_html, page_files
from lsmlake.serve.page.query_box import QueryBox
from lsmlake.serve.page.saved_page import address, saved_page

MINE = "6b1d5c0e9f2a4873"
TABLE = {"table": "sales.orders"}
VIEWS = [
    ("outline", {"table": "sales.orders"}),
    ("settings", {}),
    ("tables", {}),
    ("table", TABLE),
    ("history", TABLE),
    ("history", {**TABLE, "before": 3}),
    ("changes", {**TABLE, "snapshot": 2}),
    ("tree", TABLE),
    ("tree", {**TABLE, "snapshot": 3, "partition": "dt=2026-01-01", "first": 1}),
    ("map", {**TABLE, "search": "01"}),
    ("map", {**TABLE, "partition": "dt=2026-01-01"}),
    ("compactions", TABLE),
    ("table", {"table": "sales.orders$branch_trial"}),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return small(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def client(lake: Lake) -> TestClient:
    return client_of(lake)


# -- files ------------------------------------------------------------------------------------------------------------


def test_the_page_and_its_files_are_served_without_a_token(lake: Lake):
    client = client_of(lake, tokens=("0123456789abcdef",))
    page = client.get("/")
    assert page.status_code == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    named = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert named and all(name.startswith("/page/") for name in named)
    for name, file in page_files().items():
        if name != "index.html":
            assert client.get(f"/page/{name}").content == file.content
    assert client.get("/page/nothing.js").status_code == 404
    for name, asked in VIEWS:
        assert client.get(f"/api/{name}", params=asked).status_code == 401
    assert client.post("/api/sql", json={"text": "SELECT 1", "id": ""}).status_code == 401
    assert client.post("/api/cancel", json={"id": ""}).status_code == 401


_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+\.js)";$', re.M)
_EXPORT = re.compile(r"^export (?:async function|function|class|const) (\w+)", re.M)


def test_modules_import_what_others_export_and_use_it():
    """In the one form that `in_one_file` reads. No other site is named: the page needs nothing but its server."""
    texts = {name: file.content.decode() for name, file in page_files().items()}
    modules = {name: text for name, text in texts.items() if name.endswith(".js")}
    exported = {name: set(_EXPORT.findall(text)) for name, text in modules.items()}
    imported = {"main.js"}
    for name, text in modules.items():
        assert text.startswith("// "), f"{name} says what it is"
        assert len(_IMPORT.findall(text)) == len(re.findall(r"^import\b", text, re.M)), f"{name}: one form of import"
        for names, other in _IMPORT.findall(text):
            imported.add(other)
            wanted = {one.strip() for one in names.split(",") if one.strip()}
            assert wanted <= exported[other], f"{name} imports from {other}"
            assert [one for one in wanted if len(re.findall(rf"\b{one}\b", text)) < 2] == [], f"{name} does not use it"
    assert imported == set(modules)
    for name, text in texts.items():
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text), name
        assert name == "icon.svg" or max(map(len, text.splitlines())) <= 130, name


WAYS_TO_HTML = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML|\beval\b"
WAYS_TO_HTML += r"|new Function|srcdoc|javascript:|\.style\s*=|\bstyle:|setAttribute\(\"style|\bon\w+\s*=\s*[\"']"


def test_no_module_reads_text_as_html():
    for name, file in page_files().items():
        if name.endswith(".js"):
            assert re.findall(WAYS_TO_HTML, file.content.decode()) == [], name


# -- data -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "asked"), VIEWS)
def test_data_that_has_not_changed_is_not_sent_again(client: TestClient, name: str, asked: dict):
    first = client.get(f"/api/{name}", params=asked)
    assert first.status_code == 200 and first.headers["content-type"] == "application/json"
    assert isinstance(first.json(), dict)
    again = client.get(f"/api/{name}", params=asked, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = client.get(f"/api/{name}", params=asked, headers={"if-none-match": '"other"'})
    assert (other.status_code, other.json()) == (200, first.json())


def test_large_answers_are_compressed_for_clients_that_can_read_them(client: TestClient):
    packed = client.get("/api/history", params=TABLE, headers={"accept-encoding": "gzip"})
    plain = client.get("/api/history", params=TABLE, headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip" and "content-encoding" not in plain.headers
    assert packed.json() == plain.json()
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"])


def test_a_commit_changes_the_tag(lake: Lake):
    client = client_of(lake)
    table = lake.create_table("sales.moving", "k INT NOT NULL", primary_key=["k"])
    for name in ("table", "history", "tree", "map"):
        before = client.get(f"/api/{name}", params={"table": "sales.moving"}).headers["etag"]
        table.upsert([{"k": 1}])
        after = client.get(f"/api/{name}", params={"table": "sales.moving"}, headers={"if-none-match": before})
        assert after.status_code == 200, name
    lake.drop_table("sales.moving")
    assert client.get("/api/table", params={"table": "sales.moving"}).status_code == 404


@pytest.mark.parametrize(
    ("path", "code", "kind", "what", "cure"),
    [
        ("table?table=sales.nothing", 404, "TableNotFound", "there is no table 'sales.nothing'", "lsmlake ls"),
        ("table", 400, "InvalidQuery", "the table is missing", "name a table"),
        ("table?table=orders", 400, "InvalidQuery", "", ""),
        ("tree?table=sales.orders&snapshot=99", 404, "SnapshotNotFound", "there is no snapshot 99", "lsmlake snapshots"),
        ("tree?table=sales.orders&snapshot=x", 400, "InvalidQuery", "snapshot is a number", "correct it, or leave it out"),
        ("tree?table=sales.orders&snapshot=-1", 400, "InvalidQuery", "snapshot is a number", "correct it, or leave it out"),
        ("tree?table=sales.orders&first=1e9", 400, "InvalidQuery", "first is a number", "correct it, or leave it out"),
        (f"tree?table=sales.orders&snapshot={'9' * 40}", 400, "InvalidQuery", "snapshot is a number", ""),
        ("table?table=sales.nothing&table=sales.orders", 400, "InvalidQuery", "a parameter is given twice", "give it once"),
        ("tree?table=sales.orders&bucket=1", 400, "InvalidQuery", "unknown parameter", "leave it out"),
        ("changes?table=sales.orders", 400, "InvalidQuery", "the parameter snapshot is missing", "add snapshot=NUMBER"),
        ("map?table=sales.orders&partition=dt%3D1999", 400, "InvalidQuery", "the partition has no files at this snapshot", ""),
        ("table?table=../../etc", 400, "InvalidQuery", "", ""),
    ],
)
def test_an_error_has_its_parts(client: TestClient, path: str, code: int, kind: str, what: str, cure: str):
    answer = client.get(f"/api/{path}")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (code, code, kind)
    assert what in error["what"] and cure in error["cure"] and error["message"]


def test_methods_that_do_nothing_are_refused(client: TestClient):
    assert client.post("/api/tables").status_code == 405
    assert client.get("/api/sql").status_code == 405
    assert client.get("/api/nothing").status_code == 404


# -- SQL --------------------------------------------------------------------------------------------------------------


def test_a_statement_and_its_errors(client: TestClient):
    done = client.post("/api/sql", json={"text": "SELECT count(*) AS n FROM sales.events", "id": MINE}).json()
    assert (done["rows"], done["columns"][0]["name"]) == ([["50"]], "n")
    for text, where in (("SELECT nothing FROM sales.events", "character 8 of"), ("SELEC 1", "character 7 of")):
        refused = client.post("/api/sql", json={"text": text, "id": ""})
        assert refused.status_code == 400 and refused.json()["error"]["where"].startswith(where)
    refused = client.post("/api/sql", json={"text": "DELETE FROM sales.events", "id": ""}).json()["error"]
    assert "started without --write" in refused["what"] and refused["cure"]
    refused = client.post("/api/sql", json={"text": "SELECT 1", "id": "1"}).json()["error"]
    assert "others could guess the id" in refused["what"] and refused["cure"]
    assert client.post("/api/cancel", json={"id": "nothing"}).json() == {"cancelled": False}


def test_writes_are_allowed_by_the_settings(tmp_path: Path):
    lake = small(tmp_path)
    writer, reader = client_of(lake, writes=True), client_of(lake)
    assert (writer.get("/api/settings").json()["writes"], reader.get("/api/settings").json()["writes"]) == (True, False)
    statement = {"text": "DELETE FROM sales.orders WHERE order_id < 100", "id": ""}
    assert reader.post("/api/sql", json=statement).status_code == 400
    before = lake.table("sales.orders").count()
    assert writer.post("/api/sql", json=statement).status_code == 200
    assert lake.table("sales.orders").count() < before


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b'{"text": "SELECT 1", "id": ""}', "text/plain"),
        (b"not json", "application/json"),
        (b'["SELECT 1"]', "application/json"),
        (b'{"text": "SELECT 1"}', "application/json"),
        (b'{"text": "SELECT 1", "id": "", "more": ""}', "application/json"),
        (b'{"text": 1, "id": ""}', "application/json"),
        (b"[" * 100_000, "application/json"),
        (b'\xff{"text": "SELECT 1", "id": ""}', "application/json"),
    ],
)
def test_other_bodies_are_refused(client: TestClient, content: bytes, kind: str):
    answer = client.post("/api/sql", content=content, headers={"content-type": kind})
    assert answer.status_code == 400 and answer.json()["error"]["type"] == "InvalidQuery"


def test_the_time_of_a_statement_is_that_of_the_settings(lake: Lake):
    assert client_of(lake, statement_seconds=5).get("/api/settings").json()["seconds"] == 5
    assert client_of(lake).get("/api/settings").json()["seconds"] == QueryBox(lake).seconds


# -- one file ---------------------------------------------------------------------------------------------------------


def parts_of(document: str) -> dict[str, str]:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', document)
    (style,) = re.findall(r"<style>(.*?)</style>", document, re.S)
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", document, re.S)
    assert len(scripts) == 2
    return {"policy": policy, "style": style, "data": scripts[0], "script": scripts[1]}


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_a_saved_page_runs_only_its_own_script_and_reaches_no_server(lake: Lake):
    parts = parts_of(saved_page(lake.table("sales.orders")))
    rules = dict(rule.strip().split(" ", 1) for rule in parts["policy"].split(";"))
    assert rules["default-src"] == "'none'" and "connect-src" not in rules
    assert (rules["script-src"], rules["style-src"]) == (hash_of(parts["script"]), hash_of(parts["style"]))
    assert re.findall(r"^\s*(?:import|export) ", parts["script"], re.M) == []


def test_a_saved_page_has_the_answers_of_the_server(lake: Lake, client: TestClient):
    data = json.loads(parts_of(saved_page(lake.table("sales.orders")))["data"])
    assert (data["table"], data["version"]) == ("sales.orders", __version__)
    numbers = lake.table("sales.orders").snapshots()["snapshot_id"].to_pylist()
    assert data["trees"] == [[numbers[0], numbers[-1]]]
    partition = data["answers"][address("tree", **TABLE)]["partition"]
    for name in ("table", "history", "map", "tree", "compactions"):
        assert data["answers"][address(name, **TABLE)] == client.get(f"/api/{name}", params=TABLE).json()
    for number in numbers:
        asked = {**TABLE, "snapshot": number, "partition": partition}
        assert data["answers"][address("tree", **TABLE, snapshot=number)] == client.get("/api/tree", params=asked).json()


def test_a_saved_answer_has_the_address_that_the_script_asks_for():
    """`addressFor` of server.js writes them by URLSearchParams, as here: sorted by name, blanks as +."""
    assert address("tree", table="a b$c", snapshot=3) == "/api/tree?snapshot=3&table=a+b%24c"


def test_hostile_texts_stay_data_in_a_saved_page(lake: Lake):
    document = saved_page(lake.table("sales.hostile"))
    parts = parts_of(document)
    assert "<" not in parts["data"] and ">" not in parts["data"] and "&" not in parts["data"]
    assert json.loads(parts["data"])["answers"][address("table", table="sales.hostile")]["comment"] == HOSTILE
    assert document.count("<script") == 2 and "window.hacked" not in document.replace(parts["data"], "")
    titled = in_one_file(HOSTILE, {})
    assert "<img" not in titled.replace(parts_of(titled)["data"], "")
    assert json.loads(json_in_html({"\u2028</script>": "\ud800"})) == {"\u2028</script>": "\ud800"}


def show(lake: Lake, *arguments: str):
    return CliRunner().invoke(app, ["show", *arguments, "--warehouse", str(lake.env.storage.root)])


def test_show_writes_the_page_to_a_file(lake: Lake, tmp_path: Path):
    file = tmp_path / "orders.html"
    file.write_text("old")
    done = show(lake, "sales.orders", "--html", str(file))
    assert done.exit_code == 0 and done.stdout.startswith(f"{file}: ")
    data = json.loads(parts_of(file.read_text())["data"])
    assert data["table"] == "sales.orders" and [path.name for path in tmp_path.iterdir()] == ["orders.html"]
    done = show(lake, "sales.no_rows_yet", "--html", str(file), "--json")
    assert json.loads(done.stdout) == {"html": str(file), "bytes": file.stat().st_size}
    branch = show(lake, "sales.orders$branch_trial", "--html", str(file))
    assert branch.exit_code == 0


def test_show_refuses_what_the_page_does_not_obey(lake: Lake, tmp_path: Path):
    file = tmp_path / "orders.html"
    for option, value in (("--bucket", "0"), ("--partition", "dt=2026-01-01")):
        done = show(lake, "sales.orders", "--html", str(file), option, value)
        assert done.exit_code == 2 and option in done.stderr and not file.exists()
    for path, cure in ((tmp_path / "no" / "x.html", "mkdir -p"), (tmp_path, "name a file")):
        done = show(lake, "sales.orders", "--html", str(path))
        assert done.exit_code == 2 and cure in done.stderr
    assert show(lake, "sales.nothing", "--html", str(file)).exit_code == 2 and not file.exists()


def test_a_box_names_a_statement_only_while_it_runs(lake: Lake):
    box = QueryBox(lake)
    with pytest.raises(InvalidQuery):
        box.run("SELECT", MINE)
    assert box.cancel(MINE) is False
