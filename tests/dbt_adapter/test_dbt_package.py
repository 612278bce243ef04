"""How the adapter is installed into the packages of dbt. These tests need no dbt."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

import lsmlake

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NAMESPACE = Path(lsmlake.__file__).parent / "dbt" / "namespace"
MACROS = NAMESPACE / "dbt" / "include" / "lsmlake" / "macros"


def test_the_tests_of_dbt_run_where_it_is_installed():
    if importlib.util.find_spec("dbt") is None or importlib.util.find_spec("dbt.tests") is None:
        pytest.skip("dbt cannot be installed beside mypy: python -m tests.dbt_adapter runs its tests (see conftest.py)")


def test_the_folder_adds_to_the_packages_of_dbt_and_replaces_none():
    """A file `__init__.py` in `dbt` or `dbt/adapters` would hide dbt itself."""
    with_code = {path.parent.relative_to(NAMESPACE).as_posix() for path in NAMESPACE.rglob("__init__.py")}
    assert with_code == {"dbt/adapters/lsmlake", "dbt/include/lsmlake"}
    found = PROJECT["tool"]["setuptools"]["packages"]["find"]
    assert found["where"] == [".", NAMESPACE.relative_to(ROOT).as_posix()]
    assert found["exclude"] == ["lsmlake.dbt.namespace*"] and "dbt.*.lsmlake" in found["include"]


def test_every_file_of_the_macros_is_part_of_the_wheel():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["dbt.include.lsmlake"]
    shipped = {path for pattern in patterns for path in MACROS.parent.glob(pattern)}
    assert shipped == {path for path in MACROS.parent.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert {"adapters.sql", "incremental.sql", "tables.sql"} <= {path.name for path in shipped}


def test_macros_have_the_prefix_by_which_dbt_finds_them():
    text = "\n".join(path.read_text() for path in sorted(MACROS.glob("*.sql")))
    names = re.findall(r"{%-? macro (\w+)", text)
    assert len(names) > 30 and all(name.startswith("lsmlake__") for name in names)
    assert len(set(names)) == len(names)
    made = re.findall(r"materialization (\w+), adapter='lsmlake'", text)
    assert sorted(made) == ["incremental", "seed", "snapshot", "table", "view"]


def test_the_extra_names_the_versions_that_were_tested():
    extras = PROJECT["project"]["optional-dependencies"]
    assert "dbt-core>=1.10,<1.12" in extras["dbt"] and "lsmlake[duckdb]" in extras["dbt"]
    assert not [need for need in extras["all"] + extras["test"] if "dbt" in need]
