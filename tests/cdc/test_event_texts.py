"""How the texts of events arrive: lines, byte order marks, bytes that are not UTF-8, and what a rejected event keeps."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from strategies import new_lake

import lsmlake
from lsmlake.cdc import ChangeFormat, change_rows
from lsmlake.errors import InvalidData, LakeError, TableExists, TableNotFound
from lsmlake.write.order import ANY

NAMED = "id BIGINT NOT NULL, name STRING"
NO_ENDS = "a\u2028b\u2029c\u0085d\x7fe"
"""Characters that end a line for `str.splitlines`, and not in JSON, of which a string may have them as they are."""
KEEPS = "__debezium_unavailable_value"


def made(columns: str = NAMED, **options: str) -> tuple[lsmlake.Lake, lsmlake.Table]:
    lake = new_lake()
    return lake, lake.create_table("d.t", columns, primary_key=["id"], options=options)


def event(op: str, after: object = None, **others: object) -> str:
    return json.dumps({"op": op, "before": None, "after": after, **others}, ensure_ascii=False)


def rows_of(table: lsmlake.Table) -> list[dict[str, object]]:
    return table.scan().to_arrow().sort_by(table.schema.names[0]).to_pylist()


def rejected(lake: lsmlake.Lake, name: str = "d.t_rejected") -> list[dict[str, object]]:
    return lake.table(name).scan().to_arrow().drop_columns(["rejected_at"]).to_pylist()


def in_file(text: bytes, folder: Path) -> str:
    (folder / "events.jsonl").write_bytes(text)
    return str(folder / "events.jsonl")


FORMS: dict[str, Callable[[bytes, Path], object]] = {
    "text": lambda text, folder: text.decode(),
    "bytes": lambda text, folder: text,
    "file": in_file,
}


# -- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("format", ["debezium-json", "plain"])
def test_a_line_ends_at_a_line_feed_only(form: str, format: str, tmp_path: Path):
    rows = [{"id": 1, "name": NO_ENDS}, {"id": 2, "name": "\ufeffx"}]
    written = [json.dumps(row, ensure_ascii=False) if format == "plain" else event("c", row) for row in rows]
    text = "\ufeff" + written[0] + "\r\n\n \t\r\n" + written[1].replace(", ", ",\r") + "\n"
    assert [json.loads(line) for line in text.removeprefix("\ufeff").split("\n") if line.strip()]  # as JSON Lines has it
    _, table = made()
    table.upsert(FORMS[form](text.encode(), tmp_path), format=format)
    assert rows_of(table) == rows


@pytest.mark.parametrize("given", [list, iter, lambda texts: pa.table({"value": texts})])
def test_a_byte_order_mark_and_a_tombstone_before_an_event_are_skipped(given: Callable[[list], object]):
    _, table = made()
    table.upsert(given([None, "\ufeff" + event("c", {"id": 1, "name": "a"})]), format="debezium-json")
    assert rows_of(table) == [{"id": 1, "name": "a"}]
    with pytest.raises(InvalidData, match="the event has no value: it deletes the row of its key"):
        table.upsert(given([None, '{"id": 2, "name": "b"}']), format="plain", column="value" if given is not list else None)


def test_texts_mixed_with_other_data_are_refused_by_name():
    with pytest.raises(InvalidData, match="the events cannot be read together"):
        made()[1].upsert(iter([event("c", {"id": 1}), {"id": 2}]), format="debezium-json")


# -- bytes that are not UTF-8 -----------------------------------------------------------------------------------------

GOOD = [event("c", {"id": number, "name": "é"}).encode() for number in (1, 2)]
LATIN_1 = event("c", {"id": 3, "name": "café"}, source={"lsn": 9}).encode("latin-1")
BROKEN = [GOOD[0], LATIN_1, GOOD[1]]
PLACES = {
    "file": (lambda folder: in_file(b"\n".join(BROKEN), folder), r"events\.jsonl, line 2.*encoding='latin-1' reads this"),
    "iterator": (lambda folder: iter(BROKEN), r"^event 2: "),
    "bytes": (lambda folder: b"\n".join(BROKEN), r"^event 2: "),
    "column": (lambda folder: pa.table({"value": BROKEN, "key": [b"\xff", None, b"{}"]}), r"^column 'value', row 1: "),
    "surrogate": (lambda folder: [GOOD[0].decode(), '{"\ud800"}', GOOD[1].decode()], r"^event 2: "),
}


@pytest.mark.parametrize("form", PLACES)
def test_an_event_that_is_not_utf_8_is_refused_by_its_place_or_rejected_alone(form: str, tmp_path: Path):
    (lake, table), (data, place) = made(), PLACES[form]
    with pytest.raises(InvalidData, match=f"(?s){place}"):
        table.upsert(data(tmp_path), format="debezium-json")
    assert rows_of(table) == []
    table.upsert(data(tmp_path), format="debezium-json", on_error="reject")
    assert rows_of(table) == [{"id": 1, "name": "é"}, {"id": 2, "name": "é"}]
    (lost,) = rejected(lake)
    if form != "surrogate":
        assert lost["event"] == LATIN_1.decode(errors="replace") and lost["position"].endswith("9")
    assert "not text in UTF-8" in lost["reason"] and "\ufffd" in lost["event"]


def test_a_database_takes_the_other_events_when_one_is_not_utf_8(tmp_path: Path):
    lake, source = new_lake(), {"source": {"db": "s", "table": "a"}}
    texts = [event("c", {"id": number, "name": "ö"}, **source) for number in (1, 2)]
    path = in_file(b"\n".join([texts[0].encode(), texts[1].encode("latin-1"), b"\xff"]), tmp_path)
    given = {"format": "debezium-json", "database": "shop", "primary_keys": ["id"]}
    with pytest.raises(InvalidData, match=r"events\.jsonl, line 2"):
        lake.sync(path, **given, on_error="raise")
    report = lake.sync(path, **given)
    assert (report["a"].rows, report["a"].rejected, report.rejected) == (1, 1, 1)
    (lost,) = rejected(lake, "shop.a_rejected")
    assert "not text in UTF-8" in lost["reason"] and lost["event"] == texts[1].replace("ö", "\ufffd")


def test_a_file_in_another_encoding_is_refused_by_its_line(tmp_path: Path):
    path = in_file((event("c", {"id": 1}) + "\n").encode("utf-16-le") + b"\x00\xd8", tmp_path)
    with pytest.raises(InvalidData, match=r"events\.jsonl, line 2"):
        made()[1].upsert(path, format="debezium-json", encoding="utf-16-le", on_error="reject")


@pytest.mark.parametrize(
    ("name", "content", "encoding"),
    [
        ("events.jsonl", event("c", {"id": 1, "name": "abc"}).encode("utf-16-be"), "utf-16-le"),
        ("events.jsonl", event("c", {"id": 1, "name": "abc"}).encode("utf-16-le"), "utf-16-be"),
        ("events.jsonl", event("c", {"id": 1, "name": "ö" * 90}).encode(), "cp500"),
        ("events.jsonl", event("c", {"id": "x"}).encode(), None),
        ("events.jsonl.gz", event("c", {"id": 1}).encode(), None),
        ("events.jsonl.gz", gzip.compress(event("c", {"id": 1}).encode() * 9, mtime=0)[:-9], None),
    ],
    ids=["swapped", "swapped back", "another alphabet", "a value that does not fit", "not compressed", "cut"],
)
def test_an_error_of_a_file_of_events_names_the_file(tmp_path: Path, name: str, content: bytes, encoding: str | None):
    good, bad = tmp_path / "good.jsonl", tmp_path / name
    good.write_bytes(
        event("c", {"id": 2, "name": "b"}, source={"db": "s", "table": "a"}).encode("utf-8" if encoding is None else encoding)
    )
    bad.write_bytes(content)
    (lake, table), given = made(), {"format": "debezium-json", "database": "e", "primary_keys": ["id"]}
    for paths in (bad, [good, bad]):
        with pytest.raises(InvalidData, match=re.escape(str(bad))):
            table.upsert(paths, format="debezium-json", encoding=encoding)
        with pytest.raises(InvalidData, match=re.escape(str(bad))):
            lake.sync(paths, **given, encoding=encoding, on_error="raise")
    if encoding is None:
        with pytest.raises(InvalidData, match=re.escape(str(bad))):
            lsmlake.cdc.decode(bad, "debezium-json", NAMED)
    assert table.snapshots().num_rows == 0


def test_a_text_that_is_no_json_is_rejected_whatever_its_letters():
    """DuckDB cuts the text in its error, at any byte of a letter."""
    lake, table = made()
    texts = ["{" + "a" * begin + "öж€" * 100 for begin in range(8)]
    for text in texts:
        table.upsert([text, event("c", {"id": 1, "name": "a"})], format="debezium-json", on_error="reject")
    assert [one["event"] for one in rejected(lake)] == texts and rows_of(table) == [{"id": 1, "name": "a"}]


# -- nested values ----------------------------------------------------------------------------------------------------


def test_json_in_a_text_is_read_as_json_or_refused():
    (_, table), nested = made("id BIGINT NOT NULL, s STRUCT<a: STRING>"), '{"a": "x y"}'
    for text, row in ((nested, {"a": "x y"}), (nested.replace(":", ":\n"), {"a": "x y"}), ('{"a": "x\\ny"}', {"a": "x\ny"})):
        table.upsert([event("c", {"id": 1, "s": text})], format="debezium-json")
        assert rows_of(table)[0]["s"] == row == json.loads(text)
    for text in ('{"a": "x\ny"}', '{"a": "1"}} {"v": {"a": "2"}'):
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)
        with pytest.raises(InvalidData, match="column 's'"):
            table.upsert([event("c", {"id": 1, "s": text})], format="debezium-json")
    assert rows_of(table) == [{"id": 1, "s": {"a": "x\ny"}}]


# -- rejected events --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order_by", [None, ANY])
def test_an_event_whose_unchanged_value_nothing_has_is_kept_with_its_text_and_place(order_by: object):
    (lake, table), bad = made(), event("u", {"id": 1, "name": KEEPS}, source={"lsn": 7})
    data = pa.table({"value": [bad, event("c", {"id": 2, "name": "b"})], "offset": [5, 6]})
    table.upsert(data, format="debezium-json", on_error="reject", order_by=order_by)
    assert rows_of(table) == [{"id": 2, "name": "b"}]
    (lost,) = rejected(lake)
    assert (lost["event"], int(lost["position"]), lost["event_offset"]) == (bad, 7, 5)
    assert "lacks a value that has not changed" in lost["reason"]


NAMED_BATCH = {"writer_id": "w", "commit_id": 1}


def test_a_row_after_a_rejected_event_has_the_values_of_that_event():
    lake, table = made("id BIGINT NOT NULL, x STRING, y STRING NOT NULL")
    rows = [{"id": 1, "x": KEEPS, "y": "a"}, {"id": 1, "x": "b", "y": KEEPS}, {"id": 2, "x": "c", "y": KEEPS}]
    table.upsert(
        [event("u", one, source={"lsn": lsn}) for lsn, one in enumerate(rows)], format="debezium-json", on_error="reject"
    )
    assert rows_of(table) == [{"id": 1, "x": "b", "y": "a"}]
    assert [int(one["position"]) for one in rejected(lake)] == [0, 2]


@pytest.mark.parametrize(("identity", "replays"), [({}, False), (NAMED_BATCH, False), (NAMED_BATCH, True)], ids=str)
def test_an_event_that_only_a_later_attempt_rejects_is_recorded(identity: dict, replays: bool, monkeypatch: pytest.MonkeyPatch):
    """Another commit deletes one row and makes another meanwhile. An event that an attempt has rejected is not applied then."""
    lake, table = made()
    table.upsert([{"id": number, "name": "old"} for number in (1, 2, 3)])
    events = [event("u", {"id": number, "name": KEEPS}, source={"lsn": number}) for number in (1, 2, 3, 9)]
    write, meanwhile = change_rows.write_parts, [{"id": 9, "name": "new"}]

    def overtaken(*given: object) -> object:
        if meanwhile:
            lake.table("d.t").delete_keys([{"id": 2}])
            lake.table("d.t").upsert([meanwhile.pop()])
            if replays:
                raise KeyboardInterrupt
        return write(*given)

    monkeypatch.setattr(change_rows, "write_parts", overtaken)
    if replays:
        with pytest.raises(KeyboardInterrupt):
            table.upsert(events, format="debezium-json", on_error="reject", **identity)
    for _ in range(2 if identity else 1):
        table.upsert(events, format="debezium-json", on_error="reject", **identity)
    assert rows_of(table) == [{"id": 1, "name": "old"}, {"id": 3, "name": "old"}, {"id": 9, "name": "new"}]
    assert sorted(int(one["position"]) for one in rejected(lake)) == [2, 9]


def test_an_event_that_a_dead_process_has_rejected_is_not_applied(monkeypatch: pytest.MonkeyPatch):
    """The process dies after it has recorded the event, and before its commit. Then another writer makes the row."""
    lake, table = made("id BIGINT NOT NULL, name STRING, n INT")
    events = [event("u", {"id": number, "name": KEEPS, "n": 5}, source={"lsn": number}) for number in (8, 9)]
    events += [event("c", {"id": 1, "name": "a", "n": 5}, source={"lsn": 10})]
    given = {"format": "debezium-json", "on_error": "reject", **NAMED_BATCH}

    def die(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(change_rows, "write_parts", die)
        with pytest.raises(KeyboardInterrupt):
            table.upsert(events, **given)
    table.upsert([{"id": 9, "name": "new", "n": 0}], cast=True)
    for _ in range(2):
        table.upsert(events, **given)
    assert rows_of(table) == [{"id": 1, "name": "a", "n": 5}, {"id": 9, "name": "new", "n": 0}]
    assert sorted(int(one["position"]) for one in rejected(lake)) == [8, 9]


SKETCH = {"merge-engine": "aggregation", "fields.v.aggregate-function": "rbm64"}
LATE = [
    ("id BIGINT NOT NULL, v VARCHAR(3)", {"v": "abcd"}, "'v'.*4 characters", {}),
    ("id CHAR(3) NOT NULL, v INT", {"id": "abcd"}, "'id'.*4 characters", {}),
    ("id BIGINT NOT NULL, v STRUCT<a: CHAR(1)>", {"v": {"a": "xy"}}, "'v'.*2 characters", {}),
    ("id BIGINT NOT NULL, v STRUCT<a: INT NOT NULL>", {"v": {"a": None}}, "'v'.*NOT NULL", {}),
    ("id BIGINT NOT NULL, v DATE", {"v": 99_999_999}, "'v'.*0001 to 9999", {}),
    ("id BIGINT NOT NULL, v TIMESTAMP", {"v": "0000-01-01 00:00:00"}, "'v'.*0001 to 9999", {}),
    ("id BIGINT NOT NULL, v TIMESTAMP", {"v": "12345-01-01 00:00:00"}, "'v'", {}),
    ("id BIGINT NOT NULL, v DECIMAL(4,2)", {"v": "123.45"}, "'v'.*too large", {}),
    ("id DOUBLE NOT NULL, v INT", {"id": "NaN"}, "'id'.*NaN", {}),
    ("id BIGINT NOT NULL, v STRING", {"op": "d"}, "does not support deletes", {"merge-engine": "first-row"}),
    ("id BIGINT NOT NULL, v BINARY", {"v": "AAAA"}, "'v'.*bitmap", SKETCH),
]


@pytest.mark.parametrize(("columns", "wrong", "words", "options"), LATE)
def test_a_value_that_the_table_refuses_rejects_its_event_only(columns: str, wrong: dict, words: str, options: dict[str, str]):
    lake, table = made(columns, **options)
    good, bad = ({"id": "9" if "CHAR(3) NOT" in columns else number, "v": None} for number in (9, 1))
    events = [event("c", good), event(wrong.get("op", "c"), bad | {name: wrong[name] for name in wrong.keys() - {"op"}})]
    with pytest.raises(InvalidData, match=f"(?s)an event cannot be read: .*{words}"):
        table.upsert(events, format="debezium-json")
    assert rows_of(table) == []
    table.upsert(events, format="debezium-json", on_error="reject")
    assert [str(row["id"]).strip() for row in rows_of(table)] in (["9"], ["9.0"])
    (lost,) = rejected(lake)
    assert lost["event"] == events[1] and "an event cannot be read" not in lost["reason"]


def test_a_condition_that_holds_for_no_event_at_all_is_an_error():
    lake, table = made(f"{NAMED}, n INT")
    with pytest.raises(InvalidData, match="lacks the columns"):
        table.upsert([event("c", {"id": 1, "name": "a"})], format="debezium-json", columns=["id", "name"], on_error="reject")
    assert rows_of(table) == [] and lake.tables("d") == ["t"]


def test_a_table_that_cannot_hold_rejected_events_is_refused_before_anything_is_written():
    (lake, table), good = made(), event("c", {"id": 1, "name": "a"})
    given = {"format": "debezium-json", "on_error": "reject"}
    first = [event("c", {"id": 0}), "{"]
    table.upsert(first, **given)
    columns = lake.table("d.t_rejected").schema
    for name, other, key in (("few", "a INT", []), ("types", [field.with_type(pa.string()) for field in columns], [])):
        lake.create_table(f"d.{name}", pa.schema(other) if isinstance(other, list) else other, primary_key=key)
    lake.create_table("d.keyed", columns, primary_key=["event"])
    for name in ("few", "types", "keyed", "t"):
        with pytest.raises(InvalidData, match="the table for rejected events has other columns"):
            table.upsert([good], **given, rejected=f"d.{name}")
    with pytest.raises(TableNotFound, match="no database 'other'"):
        table.upsert([good], **given, rejected="other.t")
    lake.create_table("d.rejected_events", "a INT")
    with pytest.raises(InvalidData, match="the table for rejected events has other columns"):
        lake.sync(iter(()), format="debezium-json", database="d")
    assert rows_of(table) == []


def test_a_view_is_no_table_for_rejected_events(tmp_path: Path):
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = lake.create_table("d.t", NAMED, primary_key=["id"])
    lake.sql("CREATE VIEW d.v AS SELECT id FROM d.t")
    with pytest.raises(TableExists, match=r"a view has the name 'd\.v'"):
        table.upsert([event("c", {"id": 1, "name": "a"}), "{"], format="debezium-json", on_error="reject", rejected="d.v")
    assert rows_of(table) == []


def test_two_tables_of_a_source_whose_names_mean_events_and_rejected_ones_are_refused():
    lake = new_lake()
    texts = [event("c", {"id": 1}, source={"db": "s", "table": name}) for name in ("a", "a_rejected")]
    given = {"format": "debezium-json", "database": "shop", "primary_keys": ["id"]}
    with pytest.raises(InvalidData, match=r"shop\.a_rejected: a table of the source has the name"):
        lake.sync(texts, **given)
    assert "shop" not in lake.databases()
    assert lake.sync(texts, **given, table_mapping={r"s\.a_rejected": "b"}).batches == 1


# -- lists of rows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "old"),
    [
        ([{"id": "1", "name": "a"}, {"id": "2", "name": "b"}], [{"id": "7"}]),
        ([{"id": "1", "name": "a"}], [{"id": "7"}, {"name": "x"}]),
        ([], [{"id": "7"}]),
    ],
)
def test_an_update_of_canal_with_another_number_of_old_rows_is_refused(data: list, old: list):
    (lake, table), good = made(), {"type": "UPDATE", "data": [{"id": "5", "name": "a"}]}
    events = [json.dumps(one) for one in (good, {**good, "old": [{"name": "b"}]}, {**good, "data": data, "old": old})]
    with pytest.raises(InvalidData, match=f"{len(old)} in 'old', {len(data)} in 'data'"):
        table.upsert(events, format="canal-json")
    table.upsert(events, format=ChangeFormat("canal-json"), on_error="reject")
    assert rows_of(table) == [{"id": 5, "name": "a"}]
    (lost,) = rejected(lake)
    assert lost["event"] == events[2] and "nothing tells which rows" in lost["reason"]


def test_a_good_event_is_not_rejected_for_its_neighbour():
    lake, table = made("id BIGINT NOT NULL, at TIMESTAMP")
    events = [event("c", {"id": 1, "at": None}), event("c", {"id": 2, "at": "no time"})]
    table.upsert(events, format="debezium-json", on_error="reject")
    assert rows_of(table) == [{"id": 1, "at": None}] and len(rejected(lake)) == 1


def test_decoded_rows_have_texts_of_their_columns():
    rows = lsmlake.cdc.decode([event("c", {"id": "1"})], "debezium-json", "id CHAR(3)")
    assert rows["id"].to_pylist() == ["1  "]
    with pytest.raises(LakeError, match="4 characters"):
        lsmlake.cdc.decode([event("c", {"id": "1234"})], "debezium-json", "id CHAR(3)")
