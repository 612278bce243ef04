"""dbt's own tests of adapters, and ours, in projects of their own. They need the extra `dbt-test`, which cannot be installed
beside the extra `test`: dbt-core 1.11 and mypy want different versions of pathspec. So `python -m tests` leaves them out, and

    pip install ".[dbt-test]" && python -m tests.dbt_adapter

runs them. The SQL of dbt's tests is that of Postgres: `in_spark` translates what they send to the adapter beside their models.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
import re
from collections.abc import Iterator

import pytest

INSTALLED = importlib.util.find_spec("dbt") is not None and importlib.util.find_spec("dbt.tests") is not None
collect_ignore = [] if INSTALLED else ["test_dbt_suites.py", "test_dbt_projects.py", "test_dbt_configs.py"]

if INSTALLED:
    import sqlglot
    from dbt.tests.fixtures.project import *  # noqa: F403
    from sqlglot import exp

    from lsmlake.api.lake import Lake
    from lsmlake.dbt.dbt_adapter import LsmlakeAdapter
    from lsmlake.types.type_text import format_type

    OWN = LsmlakeAdapter.run_sql_for_tests

    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        """dbt warns of itself and of its libraries."""
        for item in items:
            if "dbt_adapter" in item.path.parts:
                item.add_marker(pytest.mark.filterwarnings("ignore"))

    @pytest.fixture(scope="class")
    def dbt_profile_target(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
        return {"type": "lsmlake", "warehouse": str(tmp_path_factory.mktemp("warehouse")), "threads": 2}

    @pytest.fixture(scope="class")
    def logs_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
        """Else dbt's tests leave a folder `logs` in the checkout."""
        os.environ["DBT_LOG_PATH"] = str(tmp_path_factory.mktemp("logs"))
        yield os.environ["DBT_LOG_PATH"]
        del os.environ["DBT_LOG_PATH"]

    @pytest.fixture(scope="class")
    def profile_user() -> None:
        """A lake has no users, so no owners."""

    def in_spark(sql: str, lake: Lake) -> Iterator[str]:
        """The statements of a text for Postgres, for Spark. An INSERT of VALUES casts them: dbt's tests write times as text."""
        plain = re.sub(r'[`"]?None[`"]?\.', "", sql).replace("`", '"')
        for tree in filter(None, sqlglot.parse(plain, read="postgres")):
            if isinstance(tree, exp.Insert) and isinstance(tree.expression, exp.Values):
                columned = isinstance(tree.this, exp.Schema)
                target = tree.this.this if columned else tree.this
                types = {one.name.lower(): format_type(one.type) for one in lake.table(f"{target.db}.{target.name}").schema}
                names = [part.name.lower() for part in tree.this.expressions] if columned else list(types)
                for row in tree.expression.expressions:
                    cells = zip(names, row.expressions, strict=True)
                    row.set("expressions", [exp.cast(cell, types[name], dialect="spark") for name, cell in cells])
            if isinstance(tree, exp.Drop):
                tree.set("cascade", tree.args.get("kind") == "SCHEMA")
            yield tree.sql("spark")

    def _without_zone(row: tuple | None) -> tuple | None:
        if row is None:
            return None
        return tuple(one.astimezone(dt.timezone.utc).replace(tzinfo=None) if isinstance(one, dt.datetime) else one for one in row)

    def run_sql_for_tests(self, sql: str, fetch: str, connection) -> object:
        result = None
        for statement in in_spark(sql, connection.handle.lake):
            result = OWN(self, statement, fetch, connection)
        return [*map(_without_zone, result)] if fetch == "all" else _without_zone(result) if fetch == "one" else result

    @pytest.fixture(autouse=True, scope="session")
    def postgres_is_understood() -> Iterator[None]:
        LsmlakeAdapter.run_sql_for_tests = run_sql_for_tests
        yield
        LsmlakeAdapter.run_sql_for_tests = OWN
