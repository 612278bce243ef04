"""What a profile or a model says is obeyed, or refused by its name. Without a run of dbt."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from types import SimpleNamespace

import agate
import pyarrow as pa
import pytest
from dbt_common.clients.agate_helper import Integer
from dbt_common.contracts.constraints import ColumnLevelConstraint, ConstraintType, ModelLevelConstraint
from dbt_common.dataclass_schema import ValidationError
from dbt_common.exceptions import CompilationError, DbtRuntimeError

import lsmlake
from lsmlake.dbt.cursor import LakeCursor
from lsmlake.dbt.dbt_adapter import LsmlakeAdapter
from lsmlake.dbt.dbt_column import LsmlakeColumn
from lsmlake.dbt.dbt_relation import LsmlakeRelation
from lsmlake.dbt.model_config import TableLayout, check_config, merged_columns
from lsmlake.dbt.profile import LsmlakeCredentials
from lsmlake.dbt.seed_rows import arrow_of, check_seed

# -- profiles -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"schema": "s", "warehouse": "w", "host": "h"}, "unknown field of a target of lsmlake: host; expected cache, schema"),
        ({"schema": "s", "warehouse": "w", "database": "d"}, "database.*write schema for the database"),
        ({"schema": "s"}, "needs the field warehouse"),
        ({"warehouse": "w"}, "needs the field schema"),
        ({"schema": "s", "warehouse": 7}, "7 is not of type 'string'"),
    ],
)
def test_a_target_that_is_not_obeyed_is_refused(given: dict[str, object], said: str):
    with pytest.raises(ValidationError, match=said):
        LsmlakeCredentials.validate(given)


def test_a_target_opens_its_lake():
    given = {"schema": "s", "warehouse": "memory://dbt-profile", "time_zone": "Europe/Berlin"}
    LsmlakeCredentials.validate(given)
    lake = LsmlakeCredentials.from_dict(given).connect()
    assert lake.sql("SELECT hour(timestamp '2026-01-01 00:00:00+00:00')").fetchall() == [(1,)]


# -- models -------------------------------------------------------------------------------------------------------------


class Config(SimpleNamespace):
    """The config of a node, as dbt has it: own fields, and all other words in `_extra`."""

    def __init__(self, **given: object) -> None:
        own = {
            name: given.pop(name)
            for name in ("unique_key", "grants", "catalog_name", "contract", "persist_docs")
            if name in given
        }
        super().__init__(**{"contract": None, **own}, _extra=given)

    def get(self, name: str, default: object = None) -> object:
        return self._extra.get(name, getattr(self, name, default))


def node(columns: object = None, constraints: object = (), **config: object) -> SimpleNamespace:
    return SimpleNamespace(
        config=Config(**config), columns=columns or {}, constraints=list(constraints), unique_id="model.shop.m", name="m"
    )


REFUSED = [
    ("table", None, {"file_format": "delta"}, "file_format has no meaning for a table.*files of a table are Parquet"),
    ("table", None, {"grants": {"select": ["a"]}}, "grants has no meaning.*a lake has no users"),
    ("table", None, {"indexes": [{"columns": ["a"]}]}, "indexes has no meaning.*file-index"),
    ("table", None, {"sql_header": "SET a = 1"}, "sql_header has no meaning.*pre-hook"),
    ("table", None, {"catalog_name": "c"}, "catalog_name has no meaning"),
    ("table", None, {"merge_update_columns": ["a"]}, "merge_update_columns has no meaning for a table"),
    ("view", None, {"primary_key": "a"}, "primary_key has no meaning for a view.*expected none of this adapter"),
    ("snapshot", None, {"primary_key": "a"}, "primary_key has no meaning for a snapshot"),
    ("seed", None, {"primarykey": "a"}, "primarykey has no meaning for a seed.*primary_key, partition_by"),
    ("incremental", "append", {"unique_key": "a"}, "append does not obey unique_key"),
    (
        "incremental",
        "append",
        {"incremental_predicates": ["a"]},
        "append does not obey incremental_predicates; choose one of merge",
    ),
    ("incremental", "merge", {}, "merge needs unique_key"),
    ("incremental", "delete+insert", {"unique_key": "a", "merge_exclude_columns": ["b"]}, "does not obey merge_exclude_columns"),
    ("incremental", "insert_overwrite", {}, "insert_overwrite replaces partitions and needs partition_by"),
    ("incremental", "microbatch", {"predicates": ["a"]}, "microbatch does not obey predicates"),
    ("incremental", "microbatch", {"unique_key": "a"}, "microbatch does not obey unique_key"),
    ("incremental", "delete_insert", {"unique_key": "a"}, r"unknown incremental_strategy delete_insert; write delete\+insert"),
    (
        "incremental",
        "merge",
        {"unique_key": "a", "predicates": ["a"], "incremental_predicates": ["b"]},
        "predicates and incremental_predicates are both given",
    ),
    (
        "incremental",
        "merge",
        {"unique_key": "a", "merge_update_columns": ["a"], "merge_exclude_columns": ["b"]},
        "merge_update_columns and merge_exclude_columns are both given",
    ),
    ("incremental", "merge", {"unique_key": "a", "merge_update_columns": []}, "merge_update_columns is empty; name the columns"),
    ("incremental", "merge", {"unique_key": "a", "merge_exclude_columns": ()}, "merge_exclude_columns is empty"),
    ("incremental", "merge", {"unique_key": "a", "predicates": [3]}, r"predicates is a text or a list of texts, found \[3\]"),
    ("table", None, {"persist_docs": {"relations": True, "column": True}}, "persist_docs does not know relations, column"),
    ("table", None, {"primary_key": 7}, "primary_key is a text or a list of texts, found 7"),
    ("snapshot", None, {"bogus": 1}, "bogus has no meaning for a snapshot of lsmlake, expected one of partition_by, options"),
    ("snapshot", None, {"grants": {"select": ["a"]}}, "grants has no meaning for a snapshot"),
    ("snapshot", None, {"contract": SimpleNamespace(enforced=True)}, "a contract is not enforced for a snapshot"),
    ("seed", None, {"contract": SimpleNamespace(enforced=True)}, "a contract is not enforced for a seed.*write column_types"),
]


@pytest.mark.parametrize(("kind", "strategy", "config", "said"), REFUSED)
def test_a_config_that_is_not_obeyed_is_refused(kind: str, strategy: str | None, config: dict, said: str):
    with pytest.raises(CompilationError, match=said):
        check_config(node(**config), kind, strategy)


def test_configs_that_are_obeyed_are_accepted():
    layout = {"primary_key": "a", "partition_by": ["b"], "merge_engine": "partial-update", "options": {"bucket": 2}}
    for kind in ("table", "seed"):
        check_config(node(**layout), kind)
    check_config(node(**layout, unique_key="a", merge_update_columns=["b"], predicates=["a > 1"]), "incremental", "merge")
    check_config(node(unique_key="a", merge_exclude_columns="b", incremental_predicates="a > 1"), "incremental", "merge")
    check_config(node(hard_deletes="ignore", persist_docs={"relation": True, "columns": False}), "snapshot")
    check_config(node(unique_key="a"), "incremental", "a_strategy_of_the_project")
    check_config(node(__dbt_internal_microbatch_event_time_start="2026-01-01"), "incremental", "microbatch")
    assert TableLayout.of(node(**layout)) == TableLayout(("a",), ("b",), {"bucket": "2", "merge-engine": "partial-update"})
    assert TableLayout.of(node(options={"write-only": True})).options == {"write-only": "true"}


def test_a_primary_key_is_given_once():
    key = [SimpleNamespace(type=ConstraintType.primary_key, columns=["a", "b"])]
    column = {"a": SimpleNamespace(name="a", constraints=[SimpleNamespace(type=ConstraintType.primary_key)])}
    enforced = SimpleNamespace(enforced=True)
    assert TableLayout.of(node(constraints=key, contract=enforced)).primary_key == ("a", "b")
    assert TableLayout.of(node(column, contract=enforced)).primary_key == ("a",)
    assert TableLayout.of(node(column, key, contract=SimpleNamespace(enforced=False))).primary_key == ()
    with pytest.raises(CompilationError, match="names no columns"):
        TableLayout.of(node(constraints=[SimpleNamespace(type=ConstraintType.primary_key, columns=[])], contract=enforced))
    for given in (node(column, key, contract=enforced), node(column, contract=enforced, primary_key="a")):
        with pytest.raises(CompilationError, match="given 2 times"):
            TableLayout.of(given)
    with pytest.raises(CompilationError, match="is the config primary_key"):
        TableLayout.of(node(options={"primary-key": "a"}))
    with pytest.raises(CompilationError, match="options are values by name"):
        TableLayout.of(node(options=["bucket"]))
    with pytest.raises(CompilationError, match="give it once"):
        TableLayout.of(node(merge_engine="first-row", options={"merge-engine": "deduplicate"}))


@pytest.mark.parametrize(
    ("layout", "types", "fits"),
    [
        (TableLayout(("id",), ("dt",)), {"id": "INT", "dt": "DATE", "v": "DOUBLE"}, True),
        (TableLayout(("id",), ("`DT`",)), {"ID": "INT", "DT": "DATE"}, True),
        (TableLayout(("id",), ("dt",)), {"id": "BIGINT", "dt": "DATE"}, False),
        (TableLayout(("id",), ("dt",)), {"id": "INT"}, False),
        (TableLayout(("id",)), {"id": "INT", "dt": "DATE"}, False),
        (TableLayout((), ("dt",)), {"id": "INT", "dt": "DATE"}, False),
    ],
)
def test_a_table_is_replaced_in_place_if_its_key_and_partitions_stay(layout: TableLayout, types: dict[str, str], fits: bool):
    lake = lsmlake.connect("memory://dbt-layout")
    lake.create_database("d", if_not_exists=True)
    table = lake.create_table("d.t", "id INT, dt DATE, v STRING", primary_key=["id"], partition_by=["dt"], if_not_exists=True)
    assert layout.is_that_of(table, types) is fits


def test_a_list_is_also_written_as_one_text():
    given = TableLayout.of(node(primary_key="id, dt", partition_by=["days(ts)", "truncate(2, id), dt"]))
    assert given == TableLayout(("id", "dt"), ("days(ts)", "truncate(2, id)", "dt"))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"primary_key": ["dt"]}, r"primary_key of the table is \(id, ts\).*the config says \(dt\): run dbt with --full-refresh"),
        ({"partition_by": "ts"}, r"partition_by of the table is \(days\(ts\)\).*the config says \(ts\)"),
        ({"partition_by": ["days(ts)", "id"]}, "partition_by of the table"),
    ],
)
def test_a_table_that_stays_keeps_its_key_and_partitions_and_takes_other_options(config: dict[str, object], said: str):
    lake = lsmlake.connect("memory://dbt-kept")
    lake.create_database("d", if_not_exists=True)
    made = {"primary_key": ["id", "ts"], "partition_by": ["days(ts)"], "options": {"bucket": 2}, "if_not_exists": True}
    table = lake.create_table("d.t", "id INT, ts TIMESTAMP, dt DATE", **made)
    refused = node(**config)
    with pytest.raises(CompilationError, match=said):
        TableLayout.of(refused).options_to_set(table, refused)
    same = node(primary_key=["ID", "ts"], partition_by="day(`TS`)", options={"bucket": "2", "write-only": True})
    assert TableLayout.of(same).options_to_set(table, same) == {"write-only": "true"}
    assert TableLayout.of(node()).options_to_set(table, node()) == {}


@pytest.mark.parametrize(
    ("config", "updated"),
    [
        ({}, ["status", "A", "b"]),
        ({"merge_exclude_columns": "status"}, ["A", "b"]),
        ({"merge_exclude_columns": ["a", "`b`"]}, ["status"]),
        ({"merge_update_columns": "a"}, ["A"]),
        ({"merge_exclude_columns": ["a", "b", "status"]}, []),
    ],
)
def test_a_merge_updates_the_columns_that_the_config_names(config: dict[str, object], updated: list[str]):
    assert merged_columns(node(**config), ["status", "A", "b"]) == updated


def test_a_merge_of_unknown_columns_is_refused():
    for name in ("merge_update_columns", "merge_exclude_columns"):
        with pytest.raises(CompilationError, match=f"{name} names nope; the columns are a, b"):
            merged_columns(node(**{name: ["a", "nope"]}), ["a", "b"])


def test_constraints_with_words_that_mean_nothing_are_refused():
    render = LsmlakeAdapter.render_column_constraint
    assert render(ColumnLevelConstraint(type=ConstraintType.not_null)) == "NOT NULL"
    assert render(ColumnLevelConstraint(type=ConstraintType.primary_key)) is None
    for wrong in (
        ColumnLevelConstraint(type=ConstraintType.not_null, expression="x"),
        ColumnLevelConstraint(type=ConstraintType.custom, expression="MASKED"),
    ):
        with pytest.raises(CompilationError, match="is not supported"):
            render(wrong)
    with pytest.raises(CompilationError, match="the constraint not_null has the name n"):
        render(ColumnLevelConstraint(type=ConstraintType.not_null, name="n"))
    with pytest.raises(CompilationError, match="constraint of a column"):
        LsmlakeAdapter.render_model_constraint(ModelLevelConstraint(type=ConstraintType.not_null, columns=["a"]))


def test_a_relation_has_a_schema_and_no_database():
    relation = LsmlakeRelation.create(schema="s", identifier="t")
    assert relation.render() == "`s`.`t`" and str(relation.without_identifier()) == "`s`"
    with pytest.raises(DbtRuntimeError, match="has no database, found 'x'; write schema"):
        LsmlakeRelation.create(database="x", schema="s", identifier="t")
    for ask in (LsmlakeAdapter.list_schemas, LsmlakeAdapter.get_relation, LsmlakeAdapter.check_schema_exists):
        names = [] if ask is LsmlakeAdapter.list_schemas else ["s"] if ask is LsmlakeAdapter.check_schema_exists else ["s", "t"]
        with pytest.raises(DbtRuntimeError, match="has no database, found 'x'"):
            ask(LsmlakeAdapter.__new__(LsmlakeAdapter), "x", *names)


# -- values -------------------------------------------------------------------------------------------------------------


def test_the_columns_of_a_seed_have_their_types():
    kinds = [Integer(), agate.Number(), agate.Boolean(), agate.Text(), agate.Date(), agate.DateTime()]
    rows = [[1, "1.5", "true", "x", "2026-01-02", "2026-01-02 03:04:05"], [None] * 6]
    made = arrow_of(agate.Table(rows, ["i", "n", "b", "t", "d", "s"], kinds))
    expected = [pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.date32(), pa.timestamp("us")]
    assert made.schema.types == expected
    assert [str(one) for one in made.slice(0, 1).to_pylist()[0].values()] == [
        *("1", "1.5", "True", "x", "2026-01-02", "2026-01-02 03:04:05")
    ]
    assert made.slice(1).to_pylist() == [dict.fromkeys(made.column_names)]


@pytest.mark.parametrize(
    ("text", "kind", "made"),
    [
        ("2.567", "DECIMAL(10,2)", Decimal("2.57")),
        ("2.7", "INT", 2),
        ("x", "DATE", None),
        ("five", "INT", 5),
        ("2026-01-02 10:00:00", "DATE", dt.date(2026, 1, 2)),
        ("2026-01-02T00:00:01", "DATE", dt.date(2026, 1, 2)),
        ("2026-01-02 00:00:00+05:00", "DATE", dt.date(2026, 1, 2)),
        ("2026-01-02 10:00:00.1234567", "TIMESTAMP", dt.datetime(2026, 1, 2, 10, 0, 0, 123456)),
        ("9007199254740993", "DOUBLE", 2.0**53),
        ("1e-400", "DOUBLE", 0.0),
        ("1e400", "DOUBLE", float("inf")),
    ],
)
def test_a_value_of_a_seed_that_would_be_another_one_is_refused(text: str, kind: str, made: object):
    given, cast = pa.table({"v": [None, text]}), pa.table({"v": pa.array([None, made])})
    with pytest.raises(CompilationError, match=re.escape(f"column 'v', row 1: the value '{text}' does not fit")):
        check_seed(given, cast, {"v": kind}, TableLayout())


def test_values_of_a_seed_that_fit_are_accepted():
    given = pa.table({"n": ["2.50", "3"], "i": [" 7", "1e2"], "d": ["2026-01-01", "2026-01-02 00:00:00.0 "], "b": ["true", None]})
    day = dt.date(2026, 1, 1)
    made = {"n": [Decimal("2.50"), Decimal("3.00")], "i": [7, 100], "d": [day, day + dt.timedelta(1)], "b": [True, None]}
    check_seed(given, pa.table(made), {"n": "DECIMAL(6,2)", "i": "INT", "d": "DATE", "b": "BOOLEAN"}, TableLayout())
    floats = {"0.1": 0.1, "0e5": 0.0, "9007199254740992": 2.0**53, "1e22": 1e22, "NaN": float("nan"), "inf": float("inf")}
    given, made = pa.table({"x": list(floats)}), pa.table({"x": list(floats.values())})
    check_seed(given, made, {"x": "DOUBLE"}, TableLayout())
    moments = pa.table({"t": [dt.datetime(2026, 1, 2, 10, 0, 0, 500000)]})
    check_seed(pa.table({"t": ["2026-01-02 10:00:00.500000000"]}), moments, {"t": "TIMESTAMP"}, TableLayout())


def test_a_key_of_a_seed_stands_once_unless_a_merge_engine_is_named():
    rows, types = pa.table({"Id": [1, 2, 1], "v": ["x", "x", "y"]}), {"Id": "BIGINT", "v": "STRING"}
    with pytest.raises(CompilationError, match=r"rows 0 and 2 have the same primary key \(1\).*merge_engine"):
        check_seed(rows, rows, types, TableLayout(("id",)))
    for layout in (TableLayout(), TableLayout(("id", "v")), TableLayout(("id",), options={"merge-engine": "first-row"})):
        check_seed(rows, rows, types, layout)


def test_numbers_of_a_seed_keep_their_digits():
    made = arrow_of(agate.Table([["9007199254740993", "1.5"], [None, "2"]], ["i", "n"], [agate.Number(), agate.Number()]))
    assert made.to_pydict() == {"i": [9007199254740993, None], "n": [1.5, 2.0]}
    assert arrow_of(agate.Table([["Infinity"], ["1"]], ["n"], [agate.Number()])).to_pydict() == {"n": [float("inf"), 1.0]}


def test_an_integer_of_a_seed_that_is_too_long_is_refused():
    with pytest.raises(CompilationError, match="column 'i', row 1: 9223372036854775808 does not fit BIGINT; give i another type"):
        arrow_of(agate.Table([[2**63 - 1], [2**63]], ["i"], [Integer()]))


def test_a_cursor_gives_its_rows_once_and_names_their_types():
    cursor = LakeCursor(lsmlake.connect("memory://dbt-cursor"))
    cursor.execute("SELECT id, CAST(id AS STRING) AS t, array(id) AS a, DATE '2026-01-01' - DATE '2025-01-01' AS i FROM range(5)")
    assert [one[:2] for one in cursor.description] == [
        ("id", "BIGINT"),
        ("t", "STRING"),
        ("a", "ARRAY<BIGINT>"),
        ("i", "INTERVAL DAY"),
    ]
    assert cursor.fetchone()[:3] == (0, "0", [0])
    assert [row[0] for row in cursor.fetchmany(2)] == [1, 2]
    assert [row[0] for row in cursor.fetchall()] == [3, 4]
    assert cursor.fetchone() is None and cursor.fetchall() == [] and cursor.affected is None
    cursor.execute("CREATE DATABASE d")
    assert cursor.description is None and cursor.fetchall() == []
    cursor.execute("CREATE TABLE d.t (id INT)")
    cursor.execute("INSERT INTO d.t VALUES (1), (2)")
    assert cursor.affected == 2


def test_types_of_columns():
    kinds = {
        "VARCHAR(3)": "is_string",
        "STRING": "is_string",
        "bigint": "is_integer",
        "DOUBLE": "is_float",
        "DECIMAL(3,1)": "is_numeric",
    }
    for kind, question in kinds.items():
        column = LsmlakeColumn("a`b", kind)
        asked = {name: getattr(column, name)() for name in ("is_string", "is_integer", "is_float", "is_numeric")}
        assert [name for name, yes in asked.items() if yes] == [question]
        assert (column.data_type, column.quoted) == (kind, "`a``b`")
