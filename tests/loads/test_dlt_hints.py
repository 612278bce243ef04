"""What a user says to the destination of dlt is obeyed, or refused by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dlt
import pyarrow as pa
import pytest
from dlt_support import MERGE, lake_of, pipeline, rows

import lsmlake.dlt
from lsmlake.errors import InvalidOption

ITEMS = [{"k": 1, "items": [{"n": 1, "v": True}]}]
TWICE = [{"k": 1}, {"k": 1}]


def orders(data: object, **hints: object) -> Any:
    return dlt.resource(data, name="orders", **hints)


def nested(hint: Mapping[str, object]) -> Any:
    """Rows whose nested rows have a hint of their column v."""
    hints = {"items": dlt.mark.make_nested_hints(columns={"v": hint})}
    return orders(ITEMS, primary_key="k", write_disposition="merge", nested_hints=hints)


def narrow(data: object, kind: str, precision: int) -> Any:
    """Rows whose column v has a precision."""
    return orders(data, columns={"v": {"data_type": kind, "precision": precision}})


def replacing(data: Sequence[Mapping[str, object]], **hints: object) -> Any:
    return orders(data, write_disposition="replace", **hints)


DEDUPLICATED = {"disposition": "merge", "strategy": "delete-insert", "deduplicated": True}
PARTITIONED = orders([{"k": 1, "v": 1}], columns={"v": {"partition": True}})
REFUSED: dict[str, tuple[Sequence[Any], str]] = {
    "a hard delete of nested rows": ([nested({"hard_delete": True})], "hard_delete of v"),
    "a sort of nested rows": ([nested({"dedup_sort": "desc"})], "dedup_sort of v"),
    "a merge key of an append": ([orders([{"k": 1}], write_disposition="append", merge_key="k")], "merge_key of k"),
    "rows that are unique already": (
        [orders([{"k": 1}], primary_key="k", write_disposition=DEDUPLICATED)],
        "deduplicated of the merge",
    ),
    "a new key in a replace": ([replacing([{"k": 1}]), replacing(TWICE, primary_key="k")], "refresh='drop_resources'"),
    "another key in a replace": (
        [replacing([{"k": 1, "j": 1}], primary_key="k"), replacing([{"k": 1, "j": 1}], primary_key="j")],
        "a replace needs a table with the primary key of the resource, expected ['j']",
    ),
    "a key that repeats in a replace": ([replacing(TWICE, primary_key="k")], "load the table anew without primary_key"),
    "no partition any more": (
        [PARTITIONED, orders([{"k": 1, "v": 1}], columns={"v": {"partition": False}})],
        "partitioned by other columns",
    ),
    "a long text": ([narrow([{"k": 1, "v": "abcd"}], "text", 3)], "more than 3 characters"),
    "long bytes": ([narrow(pa.table({"k": [1], "v": [b"abcd"]}), "binary", 3)], "more than 3 bytes"),
    "a great integer": ([narrow(pa.table({"k": [1], "v": [300]}), "bigint", 8)], "more than 8 bits"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_hints_that_nothing_obeys_are_refused_before_a_row_is_written(name: str, tmp_path: Path):
    (*earlier, last), message = REFUSED[name]
    made = pipeline(tmp_path)
    for data in earlier:
        made.run(data)
    with pytest.raises(Exception) as refused:
        made.run(last)
    assert message in str(refused.value)
    assert len(rows(tmp_path, "orders", "k") if "sales" in lake_of(tmp_path).databases() else []) == len(earlier)


def test_a_replace_keeps_the_key_of_the_table_in_any_order(tmp_path: Path):
    for hints in ({"primary_key": ["k", "j"]}, {"primary_key": ["j", "k"]}, {}):
        pipeline(tmp_path).run(replacing([{"k": 1, "j": len(hints)}], **hints))
        assert lake_of(tmp_path).table("sales.orders").primary_key == ("k", "j")
    pipeline(tmp_path, "other", "elsewhere").run(replacing([{"k": 1, "j": 5}]))
    assert rows(tmp_path, "orders", "k", "j") == [(1, 5)]


def test_values_of_a_precision_are_loaded(tmp_path: Path):
    pipeline(tmp_path).run(narrow([{"k": 1, "v": "äöü"}, {"k": 2, "v": None}, {"k": 3, "v": ""}], "text", 3))
    assert rows(tmp_path, "orders", "k", "v") == [(1, "äöü"), (2, None), (3, "")]
    bounds = pa.table({"k": [1, 2, 3], "v": pa.array([-128, 255, None], pa.int64())})
    columns = {"v": {"data_type": "bigint", "precision": 8}}
    pipeline(tmp_path, "other", "elsewhere").run(bounds, table_name="bounds", columns=columns)
    assert rows(tmp_path, "bounds", "v") == [(-128,), (255,), (None,)]


def test_options_return_to_an_earlier_value(tmp_path: Path):
    for value in ("lookup", "none", "lookup"):
        pipeline(tmp_path).run(lsmlake.dlt.adapter(orders([{"k": 1}]), options={"changelog-producer": value}), **MERGE)
        assert lake_of(tmp_path).table("sales.orders").options["changelog-producer"] == value
    versions = lake_of(tmp_path).table("sales.orders").version.schema.id
    pipeline(tmp_path).run(lsmlake.dlt.adapter(orders([{"k": 1}]), options={"changelog-producer": "lookup"}), **MERGE)
    assert lake_of(tmp_path).table("sales.orders").version.schema.id == versions


def test_descriptions_are_the_comments_of_a_table_and_its_columns(tmp_path: Path):
    for text in ("one", "two", "one", None):
        found = orders([{"k": 1}])
        if text is not None:
            new = {"new": {"data_type": "bigint", "description": "new"}} if text == "two" else {}
            found.apply_hints(columns={"k": {"description": text}, **new}, additional_table_hints={"description": text})
        pipeline(tmp_path).run(found)
        stored = lake_of(tmp_path).table("sales.orders")
        comments = {field.name: (field.metadata or {}).get(b"comment") for field in stored.version.schema.columns}
        assert (stored.comment, comments["k"]) == (text or "one", (text or "one").encode())
    assert comments["new"] == b"new"


# -- the destination --------------------------------------------------------------------------------------------------

ARGUMENTS: dict[str, Callable[[str], Any]] = {
    "storage_option": lambda where: dlt.destination("lsmlake", warehouse=where, storage_option={"region": "x"}),
    "credentials": lambda where: dlt.destination("lsmlake", warehouse=where, credentials="postgres://host/d"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_it_does_not_have_are_refused(name: str, tmp_path: Path):
    with pytest.raises(InvalidOption, match=rf"found \['{name}'\]"):
        ARGUMENTS[name](str(tmp_path))


@pytest.mark.parametrize("name", ["credentials", "staging_dataset_name_layout"])
def test_values_of_the_configuration_that_nothing_obeys_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(f"DESTINATION__LSMLAKE__{name.upper()}", "other")
    with pytest.raises(Exception, match=f"destination.lsmlake.{name}: "):
        pipeline(tmp_path).run([{"k": 1}], **MERGE)
    assert not (tmp_path / "lake").exists()


def test_a_mark_in_quotes_or_comments_is_no_argument(tmp_path: Path):
    made = pipeline(tmp_path)
    made.run([{"k": 1, "v": "%s"}, {"k": 2, "v": "it's %s"}], **MERGE)
    with made.sql_client() as client:
        assert client.execute_sql("SELECT k FROM orders WHERE v = '%s' AND k = %s", 1) == [(1,)]
        query = "SELECT k, '%s' AS `%s` /* it's %s */ FROM orders WHERE v = 'it''s %s' AND k IN (%s,%s) -- %s"
        with client.execute_query(query, 1, 2) as cursor:
            assert (cursor.df().columns.tolist(), cursor.fetchall()) == (["k", "%s"], [])
        assert client.execute_sql(query, 1, 2) == [(2, "%s")]
