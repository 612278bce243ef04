"""Listings as shown at 80 and 120 columns, and their values as text and as JSON."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import re
import time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from lsmlake.maintain.version_listings import option_reference
from lsmlake.report.listing import CellKind, Listing, ListingColumn
from lsmlake.report.listing_views import tables_view, view_of
from lsmlake.report.option_reference import Reference
from lsmlake.report.rows import Rows
from lsmlake.schema.values import json_rows, texts

MOMENT = pa.array([1_767_225_600_000, 1_767_312_001_500], pa.timestamp("ms", "UTC"))
TABLES = [
    {"name": "sales.orders", "table": "orders", "rows": 53_840, "files": 24, "bytes": 827_392, "primary_key": ["dt", "id"]},
    {
        "name": "warehouse_of_the_northern_region.inventory_movements_by_location",
        "table": "inventory_movements_by_location",
        "rows": 2,
        "files": 2,
        "bytes": 1_454,
        "commit_time": dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc),
        "primary_key": ["region", "id"],
    },
    {"name": "scratch", "table": None},
]
SNAPSHOTS = pa.table(
    {
        "snapshot_id": [1, 2],
        "commit_time": MOMENT,
        "commit_kind": ["APPEND", "COMPACT"],
        "total_record_count": [9_999, 1_234_567],
        "delta_record_count": [9_999, 0],
        "writer_id": ["05a7d978ce1e4b2fb87b90f5a53b84da", "stream-1"],
        "commit_id": pa.array([None, 41], pa.int64()),
        "error": pa.nulls(2, pa.string()),
    }
)
FILES = pa.table(
    {
        "partition": ["city=Zürich", "city=München-Nymphenburg an der Würm"],
        "bucket": [0, 31],
        "level": [0, 5],
        "record_count": [12, 10_000_000],
        "deleted_record_count": [0, 250_000],
        "file_size_in_bytes": [987, 130 << 20],
        "min_key": ["1", "2"],
        "max_key": ["8", "9"],
        "creation_time": MOMENT,
        "file_path": ["a/b/data-465a4cd0ca72483f9e131bf356ef26b7.parquet", "a/b/data-1.parquet"],
    }
)
PARTITIONS = pa.table(
    {
        "partition": ["dt=2026-01-01", "dt=2026-01-02"],
        "record_count": [17_800, 18],
        "deleted_record_count": [601, 0],
        "file_size_in_bytes": [276_480, 999],
        "file_count": [8, 1],
        "last_update_time": MOMENT,
    }
)
CONSUMERS = pa.table(
    {
        "consumer_id": ["mailer", "audit"],
        "next_snapshot_id": [3, 12_345],
        "last_progress": MOMENT,
        "error": pa.nulls(2, pa.string()),
    }
)
TAGS = pa.table(
    {
        "tag_name": ["2026-01-01", "before the migration"],
        "snapshot_id": [3, 12_345],
        "commit_time": MOMENT,
        "record_count": [18, 17_800],
        "create_time": MOMENT,
        "time_retained": ["30 d", None],
        "error": pa.nulls(2, pa.string()),
    }
)
OPTIONS = pa.table(
    {
        "name": ["bucket", "fields.amount.aggregate-function"],
        "value": ["2", "sum"],
        "default": ["1", None],
        "description": ["number of buckets of a partition", None],
    }
)
ROWS = pa.table(
    {
        "_row_kind": ["-U", "+U"],
        "order_id": [7, 12_345],
        "amount": pa.array([Decimal("9.50"), None], pa.decimal128(10, 2)),
        "customer": [{"name": "日本太郎", "tags": ["a"]}, None],
        "note": ["a longer note that goes on\nand on and on", ""],
        "updated": pa.array([dt.datetime(2026, 1, 2, 3, 4, 5, 678), None], pa.timestamp("us")),
    }
)


def drawn(view: object, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, _environ={}, highlight=False, markup=False, emoji=False).print(view)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


VIEWS = {
    "ls": tables_view(TABLES, "warehouse"),
    "snapshots": view_of("snapshots", SNAPSHOTS),
    "files": view_of("files", FILES),
    "partitions": view_of("partitions", PARTITIONS),
    "consumers": view_of("consumers", CONSUMERS),
    "tags": view_of("tags", TAGS),
    "options": view_of("options", OPTIONS, "; 55 options at the default: --all"),
    "changes": Rows(ROWS, "change"),
    "options without a table": Reference(option_reference().slice(0, 3)),
}


def page(width: int | None) -> str:
    """All views one under the other; a width of None is plain text, as in a pipe."""
    return "\n".join(
        f"--- {name}\n{drawn(view, width) if width else chr(10).join(view.lines())}\n" for name, view in VIEWS.items()
    )


@pytest.mark.parametrize("width", [80, 120, None], ids=["80 columns", "120 columns", "plain"])
def test_views_look_as_judged(width: int | None):
    """After a change look at the new page, and if it is better: `python tests/report/test_report_views.py` writes it."""
    assert page(width) == golden(width).read_text()


@pytest.mark.parametrize("name", [name for name in VIEWS if "options" not in name])
def test_no_cell_is_cut_without_a_mark_in_any_window(name):
    """Part of a number is another number: `200 k` must not become `200`."""
    view = VIEWS[name]
    roomy = drawn(view, 1000)
    whole, count = set(re.split(r"  +", roomy.replace("\n", "  "))), len(roomy.splitlines()) - 2
    for width in range(8, 130):
        rows = drawn(view, width).splitlines()[1 : 1 + count]
        assert rows and all(map(len, rows)), width
        assert [cell for row in rows for cell in re.split(r"  +", row.strip()) if "…" not in cell and cell not in whole] == [], (
            width
        )


def test_the_line_below_partitions_counts_them_once():
    caption = drawn(VIEWS["partitions"], 120).splitlines()[-1]
    assert caption == "2 partitions, 17.8 k live rows, 601 dead, 271 KiB"


def test_a_narrow_window_lists_the_omitted_columns():
    wide = SNAPSHOTS.set_column(
        SNAPSHOTS.column_names.index("commit_id"), "commit_id", pa.array([None, 1_795_322_702_231_123_456])
    )
    titles, *_, caption = drawn(view_of("snapshots", wide), 80).splitlines()
    assert titles.split() == ["snapshot", "time", "(UTC)", "kind", "rows", "new", "rows", "commit", "id"]
    assert caption == "2 snapshots; no room for writer id: use --json"
    assert "2 snapshots; no room for kind, writer id, commit id: use --json" in drawn(view_of("snapshots", wide), 60).replace(
        "\n", " "
    )


def test_every_option_has_its_name_default_and_kind_on_one_line():
    facts = option_reference().to_pylist()
    lines = [line.split() for line in drawn(Reference(option_reference()), 80).splitlines() if not line.startswith(" ")]
    for option in facts:
        default = [] if option["default"] is None else ["=", *option["default"].split()]
        kind = f"{option['type']}, {option['origin']}, {option['change']}".split()
        assert [option["name"], *default, *kind] in lines


def golden(width: int | None) -> Path:
    return Path(__file__).parents[1] / "golden" / "views" / f"{width or 'plain'}.txt"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int):
    assert max(map(cell_len, page(width).splitlines())) <= width


@given(
    st.integers(80, 200),
    st.lists(st.tuples(st.text(max_size=60), st.text(max_size=60), st.integers(0, 10**15)), min_size=1, max_size=5),
)
@examples(60)
def test_numbers_stay_whole_and_every_row_is_one_line(width: int, rows: list[tuple[str, str, int]]):
    names, words, numbers = (list(values) for values in zip(*rows, strict=True))
    view = Listing(
        (
            ListingColumn("text", CellKind.TEXT, names),
            ListingColumn("number", CellKind.NUMBER, numbers),
            ListingColumn("word", CellKind.WORD, words),
        )
    )
    lines = drawn(view, width).split("\n")
    assert len(lines) == 1 + len(rows) and max(map(cell_len, lines)) <= width
    assert all(str(number) in line.split() for number, line in zip(numbers, lines[1:], strict=True))


def test_a_value_cannot_break_its_line():
    view = Listing((ListingColumn("text", CellKind.TEXT, ["a\nb\x1b[31m", "日本"]), ListingColumn("n", CellKind.NUMBER, [1, 22])))
    assert list(view.lines()) == ["text           n", r"a\nb\x1b[31m   1", "日本          22"]
    assert drawn(view, 80).split("\n")[1] == r"a\nb\x1b[31m   1"


def test_values_as_json_keep_every_digit_and_every_level():
    deep = pa.struct([("when", pa.timestamp("us", "UTC")), ("m", pa.map_(pa.date32(), pa.list_(pa.decimal128(5, 2))))])
    table = pa.table(
        {
            "d": pa.array([Decimal("0.000000000000000001"), None], pa.decimal128(38, 18)),
            "f": [float("nan"), -float("inf")],
            "b": [b"\x00\xff", b""],
            "y": pa.array([-800_000, 3_000_000], pa.date32()),
            "t": pa.array([1, -(2**62)], pa.timestamp("us")),
            "i": [2**63 - 1, None],
            "s": pa.array([{"when": 0, "m": [(0, [Decimal("1.50"), None])]}, None], deep),
        }
    )
    first, second = json.loads(json.dumps(list(json_rows(table)), allow_nan=False))
    assert first == {
        "d": "0.000000000000000001",
        "f": "NaN",
        "b": "00ff",
        "y": "-0221-09-04",
        "t": "1970-01-01T00:00:00.000001",
        "i": 2**63 - 1,
        "s": {"when": "1970-01-01T00:00:00.000000Z", "m": {"1970-01-01": ["1.50", None]}},
    }
    assert (second["d"], second["f"], second["b"], second["i"], second["s"]) == (None, "-Infinity", "", None, None)
    assert second["y"].startswith("10183-") and second["t"] == f"<value out of range: {-(2**62)}>"


def test_values_as_text_are_those_of_sql():
    assert texts(pa.array([True, None])) == ["true", None]
    assert texts(pa.array([dt.datetime(2026, 1, 2, 3)], pa.timestamp("us"))) == ["2026-01-02 03:00:00.000000"]
    assert texts(pa.array([Decimal("1.50")])) == ["1.50"]
    assert texts(pa.array([["a", None]])) == ['["a", null]']


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    time.tzset()
    for columns in (80, 120, None):
        golden(columns).parent.mkdir(exist_ok=True)
        golden(columns).write_text(page(columns))
