"""Projects that dbt runs on a lake: what its own tests do not ask, and the project of the documents."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from decimal import Decimal
from pathlib import Path

import pytest
from dbt.cli.main import dbtRunner

import lsmlake
from lsmlake.dbt.model_config import STRATEGIES as STRATEGY_NAMES
from lsmlake.dbt.model_config import LsmlakeConfig
from lsmlake.errors import StorageFailed
from lsmlake.storage.local import LocalStorage

Run = Callable[..., list]


class Project:
    """A project of dbt in a folder, and the lake that it fills."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lake = lsmlake.connect(folder / "lake")
        self.write({"dbt_project.yml": "name: shop\nversion: '1.0'\nprofile: shop\nflags: {send_anonymous_usage_stats: false}\n"})
        target = {"type": "lsmlake", "warehouse": str(folder / "lake"), "schema": "shop", "threads": 1}
        self.write({"profiles.yml": json.dumps({"shop": {"target": "dev", "outputs": {"dev": target}}})})

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def dbt(self, *words: str, fails: str = "") -> list:
        """Runs dbt. Returns its results, or with `fails` checks that it fails with this text in a message."""
        place = ["--project-dir", str(self.folder), "--profiles-dir", str(self.folder), "--quiet"]
        done = dbtRunner().invoke([*words, *place])
        messages = " ".join(str(one.message) for one in getattr(done.result, "results", None) or ()) + str(done.exception or "")
        assert done.success is not bool(fails), messages
        assert fails in messages, messages
        return list(getattr(done.result, "results", None) or ())

    def rows(self, name: str, order: str = "1") -> list[tuple]:
        return self.lake.sql(f"SELECT * FROM shop.{name} ORDER BY {order}").fetchall()

    def commits(self, name: str) -> int:
        return len(self.lake.table(f"shop.{name}").snapshots())


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


TABLE = "{{ config(materialized='table', primary_key=['id'], partition_by='dt', options={'bucket': 2}, merge_engine='%s') }} "
ONE = TABLE % "deduplicate" + "select 1 as id, date '2026-01-01' as dt, 10 / {{ var('by', 2) }} as v"


def test_a_table_is_replaced_by_one_commit_and_stays_if_its_model_fails(project: Project):
    project.write({"models/m.sql": ONE})
    project.dbt("run")
    table = project.lake.table("shop.m")
    assert (table.primary_key, table.partition_by) == (("id",), ("dt",))
    assert {"bucket": "2", "merge-engine": "deduplicate"}.items() <= dict(table.options).items()
    project.dbt("run", "--vars", "by: 5")
    assert project.rows("m") == [(1, dt.date(2026, 1, 1), 2.0)] and project.commits("m") == 2
    project.dbt("run", "--vars", "by: 0", fails="division by zero")
    assert project.rows("m") == [(1, dt.date(2026, 1, 1), 2.0)] and project.commits("m") == 2
    project.write({"models/m.sql": ONE.replace("'dt'", "'dt', file_format='orc'")})
    project.dbt("run", fails="the config file_format has no meaning for a table of lsmlake")
    assert project.commits("m") == 2


def test_another_key_and_another_kind_of_relation_take_the_name_when_they_are_complete(project: Project, monkeypatch):
    project.write({"models/m.sql": ONE})
    project.dbt("run")
    project.write({"models/m.sql": ONE.replace("1 as id", "'a' as id")})
    project.dbt("run", "--vars", "by: 0", fails="division by zero")
    assert project.rows("m") == [(1, dt.date(2026, 1, 1), 5.0)]
    project.dbt("run")
    assert project.rows("m") == [("a", dt.date(2026, 1, 1), 5.0)]
    project.write({"models/m.sql": "{{ config(materialized='view') }} select 1 / {{ var('by', 1) }} as x"})
    project.dbt("run")
    assert project.rows("m") == [(1.0,)] and project.lake.tables("shop") == []
    project.write({"models/m.sql": ONE})
    project.dbt("run", "--vars", "by: 0", fails="division by zero")
    assert project.rows("m") == [(1.0,)]
    project.dbt("run")
    assert project.lake.tables("shop") == ["m"] and project.lake.sql("SHOW VIEWS IN shop").fetchall() == []


def test_a_run_that_ends_between_the_renames_leaves_the_old_table_and_the_next_run_completes(project: Project, monkeypatch):
    project.write({"models/m.sql": ONE})
    project.dbt("run")
    project.write({"models/m.sql": ONE.replace("1 as id", "'a' as id")})
    move, moves = LocalStorage.move, []

    def fails_at_the_second(self: LocalStorage, old: str, new: str) -> bool:
        moves.append(new)
        if len(moves) == 2:
            raise StorageFailed("the process ends here")
        return move(self, old, new)

    monkeypatch.setattr(LocalStorage, "move", fails_at_the_second)
    project.dbt("run", fails="the process ends here")
    assert project.rows("m__dbt_backup") == [(1, dt.date(2026, 1, 1), 5.0)]
    monkeypatch.undo()
    project.dbt("run")
    assert project.rows("m") == [("a", dt.date(2026, 1, 1), 5.0)]


# -- incremental models -------------------------------------------------------------------------------------------------

BATCHES = [
    [(1, 1, "a"), (2, 1, "b"), (3, 2, "c")],
    [(2, 1, "B"), (4, 2, "d"), (5, None, "e")],
    [(2, 3, "x"), (6, None, "f")],
]
"""Rows of id, k and v. The model selects the batch that a variable names."""


def batch_model(config: str) -> str:
    rows = [
        f"select {id_} as id, {'cast(null as int)' if k is None else k} as k, '{v}' as v, {number} as batch"
        for number, batch in enumerate(BATCHES)
        for id_, k, v in batch
    ]
    return (
        f"{{{{ config(materialized='incremental', {config}) }}}} select id, k, v from ({' union all '.join(rows)}) "
        "where batch = {{ var('batch') }}"
    )


def appended(old: list, new: list) -> list:
    return old + new


def by(*key: int) -> Callable[[list, list], list]:
    """Rows of a key of the new ones go. A null is in no key."""

    def replaced(old: list, new: list) -> list:
        stale = {tuple(row[one] for one in key) for row in new}
        return [row for row in old if None in (mine := tuple(row[one] for one in key)) or mine not in stale] + new

    return replaced


def by_partition(old: list, new: list) -> list:
    stale = {row[1] for row in new}
    return [row for row in old if row[1] not in stale] + new


STRATEGIES = {
    "append": ("incremental_strategy='append'", appended),
    "default without a key": ("", appended),
    "append under a primary key": ("primary_key='id'", by(0)),
    "merge": ("unique_key='id'", by(0)),
    "merge by the primary key": ("unique_key='ID', primary_key='id'", by(0)),
    "merge by the primary key with a predicate": (
        "unique_key='id', primary_key='id', incremental_predicates=['DBT_INTERNAL_DEST.id > 0']",
        by(0),
    ),
    "delete+insert": ("unique_key='k', incremental_strategy='delete+insert'", by(1)),
    "delete+insert of two columns": ("unique_key=['k', 'id'], incremental_strategy='delete+insert'", by(1, 0)),
    "delete+insert by the primary key": ("unique_key='id', primary_key='id', incremental_strategy='delete+insert'", by(0)),
    "insert_overwrite": ("partition_by='k', incremental_strategy='insert_overwrite'", by_partition),
}


def test_each_strategy_has_the_rows_of_a_naive_one_and_is_one_commit(project: Project):
    names = {name: f"m{number}" for number, name in enumerate(STRATEGIES)}
    project.write({f"models/{names[name]}.sql": batch_model(config) for name, (config, _) in STRATEGIES.items()})
    expected: dict[str, list] = {name: [] for name in STRATEGIES}
    for number, batch in enumerate(BATCHES):
        project.dbt("run", "--vars", f"batch: {number}")
        for name, (_, strategy) in STRATEGIES.items():
            expected[name] = strategy(expected[name], batch)
            found = project.lake.sql(f"SELECT * FROM shop.{names[name]}").fetchall()
            assert sorted(found, key=str) == sorted(expected[name], key=str), (name, number)
            assert project.commits(names[name]) == number + 1, name
    assert project.lake.tables("shop") == sorted(names.values())


ROW = "select {{ var('id', 1) }} as id, 'a' as day"
KEPT = {
    "other_partitions": ("", "incremental_strategy='insert_overwrite', partition_by='day'", "partition_by of the table is ()"),
    "other_key": ("primary_key='id'", "primary_key='day'", "primary_key of the table is (id)"),
    "no_option": ("primary_key='id'", "primary_key='id', options={'bukcet': 4}", "did you mean 'bucket'"),
    "no_column": ("unique_key='id'", "unique_key='id', merge_exclude_columns='nope'", "merge_exclude_columns names nope"),
    "contract": ("", "on_schema_change='fail', contract={'enforced': true}", "enforced contract that failed"),
}
"""Model -> its config in the first run, that in the second, and what is said then."""


def test_an_incremental_run_refuses_what_its_table_does_not_have_and_sets_other_options(project: Project):
    model = "{{ config(materialized='incremental', %s) }} " + ROW
    columns = "columns: [{name: id, data_type: int}]"
    project.write({"models/schema.yml": f"models: [{{name: contract, {columns}}}]"})
    project.write({f"models/{name}.sql": model % first for name, (first, _, _) in KEPT.items()})
    project.write({"models/options.sql": model % "unique_key='id', incremental_strategy='default', primary_key='id'"})
    project.dbt("run")
    project.write({f"models/{name}.sql": model % second for name, (_, second, _) in KEPT.items()})
    options = "unique_key='id', incremental_strategy='default', primary_key='id', options={'bucket': 2}"
    project.write({"models/options.sql": model % options})
    results = {one.node.name: str(one.message) for one in project.dbt("run", fails="the table")}
    for name, (_, _, said) in KEPT.items():
        assert said in results[name] and project.rows(name) == [(1, "a")] and project.commits(name) == 1, name
    assert project.lake.table("shop.options").options["bucket"] == "2" and project.rows("options") == [(1, "a")]
    project.dbt("run", "--full-refresh", "--vars", "id: 2", "--select", "other_partitions")
    assert project.rows("other_partitions") == [(2, "a")]


def test_a_schema_change_is_one_commit_of_columns_and_one_of_rows(project: Project):
    model = "{{ config(materialized='incremental', unique_key='id', on_schema_change='sync_all_columns') }} select %s"
    project.write({"models/m.sql": model % "1 as id, 'a' as v"})
    project.dbt("run")
    project.write({"models/m.sql": model % "2 as id, 3.5 as w, date '2026-01-01' as d"})
    project.dbt("run")
    assert [one[:2] for one in project.lake.sql("DESCRIBE shop.m").fetchall()] == [
        ("id", "INT"),
        ("w", "DECIMAL(2,1)"),
        ("d", "DATE"),
    ]
    assert [(row[0], row[1]) for row in project.rows("m")] == [(1, None), (2, project.rows("m")[1][1])]
    assert project.commits("m") == 3
    project.write({"models/m.sql": (model % "1 as id").replace("sync_all", "sink_all")})
    project.dbt("run", fails="unknown on_schema_change sink_all_columns, expected one of ignore")


def test_microbatches_replace_the_rows_of_their_time(project: Project):
    events = (
        "{{ config(materialized='table', event_time='at') }} select id, {{ var('v') }} as v, "
        "timestamp '2026-01-01' + make_interval(0, 0, 0, 0, id) as at from range(72) as r(id)"
    )
    model = (
        "{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='at', batch_size='day', lookback=0, "
        "begin='2026-01-01') }} select id, at, v from {{ ref('events') }}"
    )
    project.write({"models/events.sql": events, "models/m.sql": model})
    days = ["--event-time-start", "2026-01-01", "--event-time-end", "2026-01-04"]
    project.dbt("run", "--vars", "v: 1", *days)
    assert project.lake.sql("SELECT v, count(*), count(DISTINCT id) FROM shop.m GROUP BY v").fetchall() == [(1, 72, 72)]
    before = project.commits("m")
    project.dbt("run", "--vars", "v: 2", "--event-time-start", "2026-01-02", "--event-time-end", "2026-01-03")
    assert project.lake.sql("SELECT v, min(id), max(id), count(*) FROM shop.m GROUP BY v ORDER BY v").fetchall() == [
        (1, 0, 71, 48),
        (2, 24, 47, 24),
    ]
    assert project.commits("m") == before + 1


# -- seeds, snapshots, documents ------------------------------------------------------------------------------------------


def test_a_seed_is_loaded_by_one_commit_and_stays_if_the_file_does_not_fit(project: Project):
    config = "seeds: {shop: {s: {primary_key: id, +column_types: {code: varchar(3), n: 'DECIMAL(6,2)'}}}}\n"
    with (project.folder / "dbt_project.yml").open("a") as file:
        file.write(config)
    project.write({"seeds/s.csv": "id,code,n,at\n1,007,1.50,2026-01-01 02:03:04\n2,,,\n"})
    project.dbt("seed")
    described = [one[:2] for one in project.lake.sql("DESCRIBE shop.s").fetchall()]
    assert described == [("id", "BIGINT NOT NULL"), ("code", "VARCHAR(3)"), ("n", "DECIMAL(6,2)"), ("at", "TIMESTAMP")]
    assert [row[:2] for row in project.rows("s")] == [(1, "007"), (2, None)] and project.commits("s") == 1
    project.write({"seeds/s.csv": "id,code,n,at\n1,007,much,\n"})
    project.dbt("seed", fails="column 'n', row 0: the value 'much' does not fit DECIMAL(6,2)")
    project.write({"seeds/s.csv": "id,code,n,at\n1,007,1.5,\n1,008,1.5,\n"})
    project.dbt("seed", fails="rows 0 and 1 have the same primary key (1)")
    assert len(project.rows("s")) == 2 and project.commits("s") == 1
    project.write({"seeds/s.csv": "id,code,n,at\n1,0007,1.5,\n"})
    project.dbt("seed", fails="column 'code', row 0: a value does not fit, expected VARCHAR(3)")
    project.write({"seeds/s.csv": "id,code\n3,x\n"})
    project.dbt("seed", fails="column_types names n, which the file does not have")
    (project.folder / "dbt_project.yml").write_text(
        (project.folder / "dbt_project.yml").read_text().replace(", n: 'DECIMAL(6,2)'", "")
    )
    project.dbt("seed")
    assert project.rows("s") == [(3, "x")] and project.commits("s") == 2


def test_a_time_of_day_in_a_date_column_of_a_seed_is_refused(project: Project):
    with (project.folder / "dbt_project.yml").open("a") as file:
        file.write("seeds: {shop: {s: {+column_types: {day: date}}}}\n")
    project.write({"seeds/s.csv": "id,day\n1,2026-01-01 00:00:00\n2,2026-01-02\n"})
    project.dbt("seed")
    assert [str(day) for _, day in project.rows("s")] == ["2026-01-01", "2026-01-02"]
    project.write({"seeds/s.csv": "id,day\n1,2026-01-01 02:03:04\n"})
    project.dbt("seed", fails="column 'day', row 0: the value '2026-01-01 02:03:04' does not fit date")
    assert project.commits("s") == 1


SNAPSHOT = """
{%% snapshot s %%}
{{ config(target_schema='shop', unique_key='id', strategy='check', check_cols=['v'], hard_deletes='invalidate') }}
select %s {%% endsnapshot %%}
"""


def test_a_snapshot_of_changes_is_one_commit_each(project: Project):
    for number, rows in enumerate(["1 as id, 'a' as v union all select 2, 'b'", "1 as id, 'A' as v", "1 as id, 'A' as v"]):
        project.write({"snapshots/s.sql": SNAPSHOT % rows})
        project.dbt("snapshot")
        assert project.commits("s") == min(number + 1, 2)
    found = project.lake.sql("SELECT id, v, dbt_valid_to IS NULL FROM shop.s ORDER BY id, v").fetchall()
    assert found == [(1, "A", True), (1, "a", False), (2, "b", False)]


def test_a_snapshot_refuses_what_it_does_not_obey(project: Project):
    project.write({"snapshots/s.sql": SNAPSHOT % "1 as id, 'a' as v"})
    project.dbt("snapshot")
    for config in ("primary_key='id'", "bogus=1", "grants={'select': ['x']}", "contract={'enforced': true}", "partition_by='id'"):
        changed = SNAPSHOT.replace("config(", f"config({config}, ") % "1 as id, 'b' as v"
        project.write({"snapshots/s.sql": changed})
        project.dbt("snapshot", fails=config.split("=")[0])
    assert project.commits("s") == 1


def test_the_catalog_has_the_figures_and_comments_of_tables(project: Project):
    docs = "persist_docs: {relation: true, columns: true}"
    column = "columns: [{name: id, description: a \\ key}]"
    words = f"version: 2\nmodels: [{{name: m, description: it's m, config: {{{docs}}}, {column}}}]"
    project.write({"models/m.sql": ONE, "models/schema.yml": words, "models/v.sql": "select * from {{ ref('m') }}"})
    project.dbt("run")
    commits = project.commits("m")
    project.dbt("run")
    assert project.commits("m") == commits + 2  # the rows, and the comments of a table that was replaced
    project.dbt("docs", "generate")
    nodes = json.loads((project.folder / "target" / "catalog.json").read_text())["nodes"]
    made, view = nodes["model.shop.m"], nodes["model.shop.v"]
    assert (made["metadata"]["type"], made["metadata"]["comment"], view["metadata"]["type"]) == ("table", "it's m", "view")
    assert made["columns"]["id"] == {"type": "INT", "index": 1, "name": "id", "comment": "a \\ key"}
    assert made["stats"]["rows"]["value"] == 1 and made["stats"]["bytes"]["value"] > 0
    assert made["stats"]["primary_key"]["value"] == "id" and not [
        one for one in view["stats"].values() if one["include"] and one["id"] != "has_stats"
    ]


def test_the_freshness_of_a_source_is_the_time_of_its_newest_commit(project: Project):
    project.lake.create_database("raw")
    project.lake.create_table("raw.fresh", "id INT").append([{"id": 1}])
    project.lake.create_table("raw.empty", "id INT")
    rule = "{warn_after: {count: 1, period: hour}}"
    tables = "tables: [{name: fresh}, {name: empty}]"
    words = f"version: 2\nsources: [{{name: raw, schema: raw, config: {{freshness: {rule}}}, {tables}}}]"
    project.write({"models/sources.yml": words})
    found = {one.node.name: str(one.status) for one in project.dbt("source", "freshness")}
    assert found == {"fresh": "pass", "empty": "warn"}


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("{{ config(materialized='materialized_view') }} select 1 as a", "materialized"),
        ("{{ config(materialized='table', grants={'select': ['x']}) }} select 1 as a", "the config grants has no meaning"),
        ("{{ config(materialized='table', database='x') }} select 1 as a", "no database above its schemas, found x"),
        ("{{ config(materialized='incremental', incremental_strategy='merge') }} select 1 as a", "merge needs unique_key"),
    ],
)
def test_what_a_lake_does_not_have_is_refused_by_name(project: Project, model: str, said: str):
    project.write({"models/m.sql": model})
    project.dbt("run", fails=said)
    assert "shop" not in project.lake.databases() or project.lake.tables("shop") == []


def test_a_model_in_python_is_refused_by_name(project: Project):
    project.write({"models/m.py": "def model(dbt, session):\n    dbt.config(materialized='table')\n    return None\n"})
    project.dbt("run", fails="""only supports languages ['sql']; got "python\"""")


def test_threads_have_temporary_views_of_their_own(project: Project):
    files = {f"models/m{number}.sql": batch_model("unique_key='id'") for number in range(6)}
    project.write(files)
    for number in range(2):
        project.dbt("run", "--threads", "3", "--vars", f"batch: {number}")
    assert {len(project.rows(f"m{number}")) for number in range(6)} == {5}


# -- the documents --------------------------------------------------------------------------------------------------------

PAGE = (Path(lsmlake.__file__).parent / "docs" / "dbt.md").read_text()


def files_of_page() -> dict[str, str]:
    """The blocks of the page whose first line is the name of a file. In a block of text the line is no comment of the file."""
    files = {}
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.M | re.S):
        first, _, rest = block.partition("\n")
        if re.search(r"\.(yml|sql|csv)$", first):
            files[first.lstrip("-# ")] = rest if language == "text" else block
    return files


def test_the_project_of_the_documents_runs(project: Project):
    files = files_of_page()
    assert len(files) == 11
    project.write(files)
    project.folder.joinpath("profiles.yml").write_text(
        files["profiles.yml"].replace(": lake\n", f": {project.folder / 'lake'}\n")
    )
    days = ["--event-time-start", "2026-01-01", "--event-time-end", "2026-01-03"]
    for _ in range(2):
        project.dbt("build", *days)
    assert {str(one.status) for one in project.dbt("test")} == {"pass"}
    assert project.rows("totals") == [("new", 1, Decimal("2.50")), ("paid", 2, Decimal("5.25"))]
    assert project.rows("by_day") == [(dt.date(2026, 1, 1), 2), (dt.date(2026, 1, 2), 1)]
    assert len(project.rows("latest")) == len(project.rows("hourly")) == len(project.rows("history")) == 3
    assert [row[0] for row in project.rows("paid")] == [2, 3]


def test_every_config_of_this_adapter_is_in_the_documents():
    for one in fields(LsmlakeConfig):
        assert one.name.startswith("_") or one.name == "predicates" or f"`{one.name}`" in PAGE, one.name
    for strategy in STRATEGY_NAMES:
        assert f"| `{strategy}` |" in PAGE
