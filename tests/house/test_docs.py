"""The documents beside the code agree with it: fields, columns, options and the example of FORMAT.md, and the modules, functions,
values and limits that implementation.md names. The programs of the pages run, links lead somewhere, pictures are those that
pictures.py draws, the generated reference is complete, and the site can be built."""

from __future__ import annotations

import datetime as dt
import html
import importlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
import warnings
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import deltalake
import pictures
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from naive import NaiveTable
from pyiceberg.catalog.sql import SqlCatalog
from strategies import lake_on, multiset
from test_readme import commands, run_python
from test_tidy import LIBRARY, ROOMS, ROOT
from typer.testing import CliRunner

import lsmlake
from lsmlake.api.system_tables import SUMMARIES
from lsmlake.cli.app import app, single
from lsmlake.cli.commands import COMMANDS
from lsmlake.cli.site.build import build_site, file_of, server_of
from lsmlake.cli.site.contents import DOCUMENTS, SECTIONS
from lsmlake.cli.site.reference_pages import error_classes, pages, public_members
from lsmlake.errors import InvalidQuery, StorageFailed
from lsmlake.format import branch, deletion_vector, manifest, manifest_codec, snapshot, statistics, tag
from lsmlake.lsm.merge.fold import LAST_NON_NULL
from lsmlake.maintain.version_listings import reference
from lsmlake.notebook import offered
from lsmlake.options.option import Change
from lsmlake.options.table_options import OPTIONS, Options
from lsmlake.schema import schema
from lsmlake.schema.envelope import pack
from lsmlake.schema.schema import Schema
from lsmlake.storage.env import Limits
from lsmlake.storage.memory import MemoryStorage
from lsmlake.tables import consumers
from lsmlake.types import column_types
from lsmlake.types.json_shape import JsonKind

TEXT = {name: path.read_text() for name, path in DOCUMENTS.items()}


def document_of(section: str) -> str:
    """The part of the format that has a section."""
    return next(name for name in ("format", "format_branches") if f"\n## {section}\n" in TEXT[name])


def section_tables(document: str, section: str) -> list[list[dict[str, str]]]:
    """The tables of a section: their rows by the titles of their columns."""
    text = TEXT[document].partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    tables = []
    for lines in re.findall(r"(?:^\|.*\n)+", text, re.M):
        titles, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in lines.splitlines())
        tables.append([dict(zip(titles, row, strict=True)) for row in rows])
    return tables


SAMPLES: dict[str, object] = {
    "integer": 25,
    "time": 5,
    "text": "two words",
    "one of four words": "OVERWRITE",
    "one of three words": "rename",
    "name": "a-name",
    "boolean": True,
    "named": ["manifest-list-1", 5],
    "list of text": ["a b"],
    "list of fields": [{}],
    "list of objects": [{}],
    "object": {},
    "list of stored values": [None, 5],
    "stored value": 5,
    "object of text": {"a": "b"},
    "object of sources": {"a": ["a-name", 5, 0]},
    "object of integers": {"a": 5},
}


@pytest.mark.parametrize(
    ("section", "number", "declared"),
    [
        ("Schema", 0, schema._KINDS),
        ("Snapshot", 0, snapshot._KINDS),
        ("Changelogs and consumers", 1, consumers._KINDS),
        ("Tags", 0, tag._KINDS),
        ("Statistics", 0, statistics.KINDS),
        ("Statistics", 1, statistics.COLUMN_KINDS),
        ("Branches", 0, branch.KINDS),
        ("Branches", 1, branch.WORK_KINDS),
        ("Manifests", 1, manifest._LIST_COLUMNS),
        ("Manifests", 2, deletion_vector._INDEX_COLUMNS),
    ],
)
def test_fields_are_those_of_the_code(section: str, number: int, declared: Mapping[str, JsonKind]):
    documented = section_tables(document_of(section), section)[number]
    first = next(iter(documented[0]))
    assert [row[first].strip("`") for row in documented] == list(declared)
    for row in documented:
        kind, sample = declared[row[first].strip("`")], SAMPLES[row["type"]]
        given = (sample, None, {5: "of another type"})
        fits = [kind.fits([value] if section == "Manifests" else value) for value in given]
        assert fits == [True, row["null"] == "yes", False], row


def numbers(text: str) -> tuple[int, int]:
    """'0 to 2^31-1' as numbers."""
    least, most = (part.partition("^") for part in text.split(" to "))
    power, _, less = most[2].partition("-")
    return int(least[0]), int(most[0]) ** int(power or 1) - int(less or 0)


def test_columns_of_manifests_are_those_of_the_code():
    documented = {row["column"].strip("`"): row for row in section_tables("format", "Manifests")[0]}
    fixed = {name: column_types.type_name(type_) for name, type_ in (*manifest.FIXED, *manifest.LATER, manifest.SPEC)}
    assert {name: row["type"] for name, row in documented.items() if ":" not in name} == fixed
    assert {name for name in fixed if documented[name]["null"] == "yes"} == {*manifest_codec._MAY_BE_NULL, *dict(manifest.LATER)}
    ranges = {name: numbers(documented[name]["range"]) for name in fixed if documented[name]["range"]}
    assert ranges == manifest_codec._RANGES
    columns = pa.schema([("d", pa.date32()), ("k", pa.int64()), ("v", pa.list_(pa.string()))])
    made = manifest.entries_schema(Schema.create(columns, ["d", "k"], ["d"], {}, None, 0, "u", "t"))
    kinds = {re.sub(r"\d+$", "<i>" if name[0] in "pk" else "<id>", name) for name in made.names if ":" in name}
    assert kinds == {name for name in documented if ":" in name}


def test_options_that_change_the_meaning_of_files():
    documented = {row["option"].strip("`"): row["can change"] for row in section_tables("format", "Altering")[0]}
    declared = {name: option for name, option in OPTIONS.items() if option.change is not Change.ANY_TIME}
    assert set(documented) == {*declared, "fields.*"}
    for name, option in declared.items():
        assert documented[name].partition(",")[0] == option.change.value
        assert ("," in documented[name]) == (option.matters is not None), f"{name}: the document states the exception"


def test_defaults_that_readers_need():
    stated = {row["option"].partition(",")[0].strip("`"): row["default"] for row in section_tables("format", "Schema")[-1]}
    values = Options.parse({}).values
    assert stated.pop("bucket-key") == "the [key](#keys-and-buckets)" and values["bucket-key"] == ()
    assert stated.pop("fields.default-aggregate-function") == f"`{LAST_NON_NULL}`"
    for name, default in stated.items():
        own = [f"`{OPTIONS[name].type.text(values[name])}`", str(values[name])]
        assert name == "sequence.delete-retained" or default.partition(";")[0] in own, name
    assert Options.parse({"sequence.field": "s"}).values["sequence.delete-retained"] == 2 * 86_400_000
    assert "`2 d` under `deduplicate` with `sequence.field`" in stated["sequence.delete-retained"]
    full = Options.parse({"changelog-producer": "full-compaction"}).values
    assert not full["deletion-vectors.enabled"] and "`false` under" in stated["deletion-vectors.enabled"]
    assert (full["compaction.strategy"], full["num-levels"]) == ("universal", 6)
    assert "`universal` if deletion vectors are off" in stated["compaction.strategy"] and "so 6" in stated["num-levels"]


def test_the_length_in_an_envelope_is_that_before_compression():
    data = pack("MANF", {"rows": 1, "columns": ["a" * 1000]})
    size, frame = int.from_bytes(data[10:18], "big"), data[18:-4]
    assert "before compression" in section_tables("format", "Envelopes")[0][3]["content"]
    assert len(pa.Codec("zstd").decompress(frame, size)) == size > 1000 > len(frame)


def test_the_example_is_what_the_verbs_write():
    storage = MemoryStorage()
    lake = lake_on(storage)
    lake.create_database("sales")
    columns = "dt DATE, id BIGINT, v STRING"
    table = lake.create_table("sales.orders", columns, primary_key=["dt", "id"], partition_by=["dt"], options={"bucket": 1})
    for keys, values in (([1, 2, 3, 4, 5], "abcde"), ([2], "B")):
        table.upsert(pa.table({"dt": [dt.date(2026, 1, 1)] * len(keys), "id": keys, "v": list(values)}))
    example = TEXT["format"].partition("\n## Example\n")[2].partition("\n## ")[0]
    listed, puffin = re.findall(r"^```\n(.*?)^```", example, re.M | re.S)
    paths = [line.split()[0] for line in listed.splitlines()]
    there = NaiveTable(storage, table.path)
    there_now = {path for path in there.referenced() if "manifest-list-000" not in path}  # snapshot 1 has lists of its own
    assert sorted(paths) == sorted({*there_now, f"{table.path}/snapshot/0000/snapshot-2"})
    latest = there.snapshots()[2]
    for name, field in (("base", "base_manifest_list"), ("delta", "delta_manifest_list"), ("index", "index_manifest")):
        assert f"{name} {latest[field][0]}" in listed
    for file in there.files(latest):
        level = rf"ADD {file.path.rpartition('/')[2]}, level {file.level}, {file.rows} rows?, .*: {file.sequence}$"
        assert re.search(level, listed, re.M)
    stored = there._bytes(f"{table.path}/index/dv-0008.puffin").hex()
    begin, _, end = "".join(re.split(r"  +", line)[0] for line in puffin.splitlines()).replace(" ", "").partition("...")
    assert stored.startswith(begin) and stored.endswith(end)


@pytest.mark.parametrize("vectors", [True, False])
@examples(10)
@given(st.data())
def test_a_reader_written_from_the_format_finds_the_rows(vectors: bool, data: st.DataObject):
    """`NaiveTable.rows`, over random writes and deletes, some of which wait at level 0."""
    storage = MemoryStorage()
    lake = lake_on(storage)
    lake.create_database("d")
    options = {"bucket": 2, "deletion-vectors.enabled": vectors}
    table = lake.create_table("d.t", "p STRING, k INT, v INT", primary_key=["p", "k"], partition_by=["p"], options=options)
    there = NaiveTable(storage, table.path)
    keys = st.tuples(st.sampled_from(["a", "", None]), st.integers(0, 9))
    for number in range(data.draw(st.integers(1, 6))):
        batch = [{"p": p, "k": k} for p, k in data.draw(st.lists(keys, min_size=1, unique=True))]
        write, compact = data.draw(st.tuples(st.sampled_from([table.upsert, table.delete_keys]), st.booleans()))
        write(batch if write == table.delete_keys else [{**row, "v": number} for row in batch], compact=compact)
        found = there.rows(there.snapshots()[number + 1], vectors=vectors)
        states = table.version.states().values()
        assert not [file for state in states for file in state.files if file.level == 0 and file.name in state.vectors]
        assert multiset(map(row_of, found)) == multiset(map(row_of, table.scan().to_arrow().to_pylist()))


def row_of(row: dict[str, object]) -> tuple:
    return row["p"], row["k"], row["v"]


PROGRAMS = {name: re.findall(r"^```python\n(.*?)^```", text, re.M | re.S) for name, text in TEXT.items()}
ON_SPARK, BY_OTHERS = {"spark"}, {"spark_iceberg", "serve"}
"""Pages whose programs need Java, and those that tests/readers and tests/serve run."""
IN_PROCESS = [name for name, programs in PROGRAMS.items() if programs and name not in ON_SPARK | BY_OTHERS]


@pytest.fixture
def at_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, where the warehouse `lake` has the table of the pages."""
    lake = lsmlake.connect(tmp_path / "lake")
    lake.create_database("sales")
    columns = "order_id INT, status STRING, amount DOUBLE"
    orders = lake.create_table("sales.orders", columns, primary_key=["order_id"])
    orders.upsert([{"order_id": 1, "status": "open", "amount": 12.0}, {"order_id": 2, "status": "done", "amount": 3.0}])
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_foreign_tables(folder: Path) -> None:
    """The tables that the page about imports names."""
    rows = pa.table({"order_id": [1, 2], "status": ["open", "closed"], "amount": [12.0, 3.0]})
    deltalake.write_deltalake(str(folder / "delta" / "orders"), rows)
    (folder / "exports").mkdir()
    pq.write_table(rows, folder / "exports" / "a.parquet")
    catalog = SqlCatalog("made", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/iceberg")
    catalog.create_namespace("made")
    table = catalog.create_table("made.orders", rows.schema, location=f"file://{folder}/iceberg/orders")
    table.append(rows)
    metadata = Path(table.metadata_location.removeprefix("file://"))
    metadata.rename(metadata.with_name("v1.metadata.json"))
    (metadata.parent / "version-hint.text").write_text("1")
    catalog.close()


@pytest.mark.parametrize("name", IN_PROCESS)
def test_the_programs_of_a_page_run_in_order(name: str, at_orders: Path):
    if name == "import":
        make_foreign_tables(at_orders)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Polars recommends polars_iceberg
        exec("\n".join(PROGRAMS[name]), {})


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted(ON_SPARK))
def test_the_programs_of_a_page_run_on_spark(name: str, at_orders: Path):
    run_python("\n".join(PROGRAMS[name]), at_orders)


def test_the_commands_of_a_page_run_in_order(at_orders: Path):
    (at_orders / "incoming").mkdir()
    pq.write_table(pa.table({"order_id": [7], "status": ["new"], "amount": [1.0]}), at_orders / "incoming" / "a.parquet")
    (at_orders / "events").mkdir()
    event = {"op": "c", "after": {"id": 1}, "source": {"db": "shop", "table": "items", "lsn": 1}}
    (at_orders / "events" / "1.jsonl").write_text(json.dumps(event))
    (block,) = re.findall(r"^```sh\n(.*?)^```", TEXT["command_line"], re.M | re.S)
    assert {shlex.split(line)[1] for line in commands(block) if line.startswith("lsmlake")} == COMMANDS.keys() - {"demo", "serve"}
    for line in commands(block)[1:]:
        done = CliRunner().invoke(app, shlex.split(line)[1:], env={"LSMLAKE_WAREHOUSE": "lake"})
        assert (done.exit_code, bool(done.stdout.strip())) == (0, True), f"{line}\n{done.output}"


# -- names in the documents -------------------------------------------------------------------------------------------

CALLS = re.compile(r"`([a-z_]+(?:/[a-z_]+)*\.py)`:((?:(?:,| and| or)?\s`[A-Za-z0-9_.]+\(\)`)+)")
"""A path and one or more calls of functions or methods in that module."""


def missing(path: str, dotted: str) -> bool:
    value: object = importlib.import_module("lsmlake." + path.removesuffix(".py").replace("/", "."))
    for part in dotted.split("."):
        if part not in getattr(value, "__dataclass_fields__", ()) and not hasattr(value, part):
            return True
        value = getattr(value, part, None)
    return False


READ = [*DOCUMENTS.values(), ROOT / "README.md", ROOT / ".github" / "CONTRIBUTING.md"]


@pytest.mark.parametrize("path", READ, ids=lambda path: path.name)
def test_every_path_in_a_document_exists(path: Path):
    found = re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py|\.md)?|[a-z_]+\.py)`", path.read_text())
    known = {"manifest/", "index/", "schema/", "snapshot/"}  # folders of a table
    assert not [path for path in found if path not in known and not (ROOT / path).exists() and not (LIBRARY / path).exists()]


@pytest.mark.parametrize("path", READ, ids=lambda path: path.name)
def test_every_link_in_a_document_leads_somewhere(path: Path):
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        if not target.startswith("https://"):
            file, _, place = target.partition("#")
            there = path.parent / file if file else path
            assert there.is_file(), target
            assert not place or place in places(there.read_text()), target


def places(text: str) -> set[str]:
    """What a link to a part of a page may say behind #."""
    titles = re.findall(r"^##+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub("[^a-z0-9 _-]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", [name for name, text in TEXT.items() if "\nContents: " in text])
def test_contents_name_every_chapter_in_order(name: str):
    listed = re.search(r"^Contents: (.*?)\.$", TEXT[name], re.M | re.S)[1]
    chapters = re.findall(r"^## (.*)$", re.sub(r"^```.*?^```", "", TEXT[name], flags=re.M | re.S), re.M)
    assert re.findall(r"\[([^]]+)\]", listed) == chapters


@pytest.mark.parametrize("path", READ, ids=lambda path: path.name)
def test_lists_have_the_form_that_every_renderer_reads(path: Path):
    """Python-Markdown, which renders the site, wants a blank line before a list and four blanks before an inner one."""
    before, inside = "", False
    for line in re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S).splitlines():
        if item := re.match(r"( *)(?:[-*]|\d+\.) ", line):
            assert len(item[1]) % 4 == 0, line
            assert item[1] or inside or not before.strip(), line
            inside = True
        elif line.strip() and not line.startswith(" "):
            inside = False
        before = line


def test_every_page_is_in_a_section_once():
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted({*DOCUMENTS, *pages(), "contributing"})


def test_every_function_in_a_document_exists():
    text = " ".join(TEXT["implementation"].split())
    found = [(path, call) for path, calls in CALLS.findall(text) for call in re.findall(r"([\w.]+)\(\)", calls)]
    assert len(found) > 100
    assert not [(path, call) for path, call in found if missing(path, call)]
    for dotted in re.findall(r"`([A-Za-z_.]+)\(\)`", CALLS.sub("", text)):
        assert dotted.startswith("Table."), f"{dotted}: a call stands after its module, unless it is a verb of Table"
        assert not missing("api/table.py", dotted)


def test_modules_are_named_in_one_place():
    """Files move; then one table changes. The other chapters that may name some: rooms, values and recipes."""
    chapters = re.split(r"^## ", TEXT["implementation"], flags=re.M)[1:]
    named = {chapter.partition("\n")[0]: re.findall(r"`[a-z_]+/[a-z_/]*\.py`", chapter) for chapter in chapters}
    assert {title for title, files in named.items() if [f for f in files if not f.startswith("`tests/")]} <= {
        *("Rooms", "Where is it?", "Values", "Recipes", "Tests")
    }


def test_every_value_in_a_document_exists():
    rows = section_tables("implementation", "Values")[0]
    named = [(row["module"].strip("`"), name) for row in rows for name in re.findall(r"`(\w+)`", row["value"])]
    assert not [(path, name) for path, name in named if missing(path, name)]


def test_every_room_and_limit_is_in_the_implementation():
    rooms = " ".join(row["room"] for row in section_tables("implementation", "Rooms")[0])
    assert [name.strip("/").removesuffix(".py") for name in re.findall(r"`([\w/.]+)`", rooms)] == ROOMS
    limits = {row["limit"].strip("`") for row in section_tables("implementation", "Limits")[0]}
    assert limits == {field.name for field in fields(Limits)}
    code = "".join(path.read_text() for path in LIBRARY.rglob("*.py"))
    assert not [name for name in limits if f"limits.{name}" not in code]


# -- pictures, the reference and the site -----------------------------------------------------------------------------


def test_pictures_are_those_that_are_drawn():
    shown = {path.name: path.read_text() for path in pictures.FOLDER.iterdir()}
    assert shown == {name: draw() for name, draw in pictures.PICTURES.items()}, "run python -m tests.pictures"
    named = {name for text in TEXT.values() for name in re.findall(r"\(pictures/(\w+\.svg)\)", text)}
    assert named == set(shown)
    assert all(re.search(r"!\[[^]]{10,}\]\(pictures/", text) for text in TEXT.values() if "(pictures/" in text)


def headings(page: str) -> list[str]:
    return re.findall(r"^## (.*)$", page, re.M)


def test_the_generated_reference_is_complete():
    made = pages()
    assert headings(made["commands"]) == list(COMMANDS)
    for name in COMMANDS:
        section = made["commands"].partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        flags = {flag for parameter in single(name).params if parameter.param_type_name == "option" for flag in parameter.opts}
        assert flags <= set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", section)), name
    rows = re.findall(r"^\| `([^`]+)` \|", made["options"], re.M)
    assert rows == [facts.name for facts in reference()]
    assert headings(made["system_tables"]) == list(SUMMARIES)
    assert headings(made["errors"]) == list(error_classes()) and set(error_classes()) == set(names_in_tree())
    described = [name for text in made.values() for name in re.findall(r"^::: lsmlake\.\S*\.(\w+)$", text, re.M)]
    assert sorted(described) == sorted({*lsmlake.__all__, *lsmlake.cdc.__all__} - {"errors", "cdc"})


def names_in_tree() -> list[str]:
    """The classes in the tree that the docstring of `lsmlake.errors` draws."""
    return re.findall(r"^    (?:[├└]── )?(\w+)", lsmlake.errors.__doc__, re.M)


def test_members_of_a_class_are_those_that_a_shell_completes():
    made = pages()
    for value in (getattr(lsmlake, name) for name in lsmlake.__all__ if name not in ("errors", "cdc")):
        if isinstance(value, type):
            named = set(public_members(value))
            assert {name for name in named if not name.startswith("_")} == {
                name for name in offered(dir(value)) if not name.startswith("_")
            }
            (text,) = (text for text in made.values() if f".{value.__name__}\n" in text)
            assert ", ".join(public_members(value)) in text


@pytest.mark.in_turn
def test_the_site_is_built_without_a_warning_and_needs_no_network(tmp_path: Path):
    site = tmp_path / "site"
    site.mkdir()
    (site / "lsmlake-version.txt").write_text("0.0.1\n")  # an older site, which is replaced
    (site / "old.html").write_text("old")
    command = [Path(sys.executable).parent / "lsmlake", "docs", "--build", site, "--serve", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        assert served.stdout.readline() == f"{site / 'index.html'}\n"
        with urllib.request.urlopen(served.stdout.readline().strip()) as answer:
            assert b"<h1" in answer.read()
        served.send_signal(signal.SIGINT)
        assert served.wait(30) == 130
    made = {path.name for path in site.glob("*.html")}
    assert made == {"404.html", "index.html", *(f"{Path(file_of(n)).stem}.html" for ns in SECTIONS.values() for n in ns)}
    for path in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|img)[^>]* src="([^"]+)"|<link[^>]* rel="stylesheet"[^>]* href="([^"]+)"', path.read_text()
        )
        assert not [one for one in map("".join, loaded) if one.startswith(("http:", "https:", "//"))], path.name
    assert '<ol start="4">' in (site / "FORMAT.html").read_text()  # the steps of a reader go on behind a title
    text = html.unescape((site / "api_table.html").read_text())
    assert all(f'id="lsmlake.api.table.Table.{name}"' in text for name in public_members(lsmlake.Table))


def test_a_folder_with_something_else_is_not_replaced(tmp_path: Path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InvalidQuery, match="holds something else"):
        build_site(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_port_that_is_taken_is_named(tmp_path: Path):
    with server_of(tmp_path, 0) as server, pytest.raises(StorageFailed, match=rf"127.0.0.1:{server.server_port}: cannot listen"):
        server_of(tmp_path, server.server_port)


@pytest.mark.parametrize("words", [["--port", "80"], ["sql", "--serve"], ["--path", "--build", "x"]])
def test_options_that_have_no_effect_are_refused(words: list[str]):
    done = CliRunner().invoke(app, ["docs", *words])
    assert (done.exit_code, done.stdout) == (2, "")
