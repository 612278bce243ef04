"""The pages of the reference, generated from the code: commands, options, system tables, errors and the public names.

Each page is Markdown. The pages of public names hold directives of mkdocstrings, which reads the docstrings.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence

import lsmlake
from lsmlake import cdc, errors
from lsmlake.api.system_tables import SUMMARIES
from lsmlake.cli.app import single
from lsmlake.cli.commands import COMMANDS
from lsmlake.maintain.version_listings import OptionFacts, reference
from lsmlake.notebook import offered
from lsmlake.warehouse import connect


def pages() -> Mapping[str, str]:
    """Name -> text of every generated page."""
    made = {"commands": _commands(), "options": _options(), "system_tables": _system_tables(), "errors": _errors()}
    return made | {name: _api(title, about, names) for name, (title, about, names) in _API.items()}


# -- commands ---------------------------------------------------------------------------------------------------------


def _commands() -> str:
    parts = [
        "# Commands",
        "What `lsmlake COMMAND --help` prints, for all commands. [The command line](command_line.md) has examples.",
    ]
    for name in COMMANDS:
        command = single(name)
        context = command.make_context(f"lsmlake {name}", [], resilient_parsing=True)
        parts += [f"## {name}", _paragraphs(command.help or ""), f"`{command.get_usage(context).removeprefix('Usage: ')}`"]
        records = filter(None, (parameter.get_help_record(context) for parameter in command.get_params(context)))
        rows = [(f"`{written.partition(' <')[0]}`", about) for written, about in records]
        parts.append(_table(("argument or option", "meaning"), rows))
    return _page(parts)


# -- options ----------------------------------------------------------------------------------------------------------


def _options() -> str:
    about = """
        All options of tables, as `lsmlake options` and `Table.options_table()` list them. A table gets options from
        `create_table(options={...})`, `alter(lsmlake.set_option(name, value))`, `TBLPROPERTIES` in SQL and `lsmlake alter
        --set`.

        An option that is unknown, that has no effect in combination with the others, or that contradicts another is
        refused. *Origin* says whether Apache Paimon has the option, too. *Change*: `any time`; `rewrites`: the alteration
        compacts all buckets in full, in the same commit; `while empty`: only while the table has no rows.
    """
    parts = ["# Options", _paragraphs(about)]
    groups: dict[str, list[OptionFacts]] = {}
    for facts in reference():
        groups.setdefault(facts.group, []).append(facts)
    for group, options in groups.items():
        parts.append(f"## {group[0].upper()}{group[1:]}")
        parts.append(_table(("option", "type and default", "meaning", "change"), map(_option, options)))
    return _page(parts)


def _option(facts: OptionFacts) -> tuple[str, ...]:
    default = f"default `{facts.default}`" if facts.default is not None else "off by default"
    needs = f" Has an effect only with `{facts.only_with}`." if facts.only_with else ""
    meaning = f"{facts.description[0].upper()}{facts.description[1:].rstrip('.')}."
    return f"`{facts.name}`", f"{facts.takes}; {default}", f"{meaning}{needs} Origin: {facts.origin}.", facts.change


# -- system tables ----------------------------------------------------------------------------------------------------


def _system_tables() -> str:
    about = """
        What a table knows about itself: `orders.system_table(name)`, `SELECT * FROM sales.orders$name` and `lsmlake
        system sales.orders name`. Names and columns are those of Apache Paimon; `history` is Apache Iceberg's.

        `snapshot=`, `tag=` and `timestamp=` choose a version, as in `scan`, except for tables that are about all
        snapshots. `audit_log`, `binlog` and `ro` hold rows of the table: they are streams, like a scan, and DataFrames on
        Spark (`to_spark()`). The others are Arrow tables.
    """
    parts = ["# System tables", _paragraphs(about)]
    lake = connect("memory://lsmlake-docs-reference")
    lake.create_database("docs", if_not_exists=True)
    table = lake.create_table("docs.example", "id BIGINT NOT NULL, name STRING", primary_key=["id"], if_not_exists=True)
    for name, about in SUMMARIES.items():
        rows = table.system_table(name)
        schema = rows.schema if name not in ("audit_log", "binlog", "ro") else rows.to_batches().schema
        columns = [(f"`{field.name}`", f"`{field.type}`") for field in schema]
        parts += [f"## {name}", f"{about[0].upper()}{about[1:]}.", _table(("column", "Arrow type"), columns)]
        if name in ("audit_log", "binlog", "ro"):
            parts.append("Shown for a table with the columns `id BIGINT` and `name STRING`.")
    return _page(parts)


# -- errors -----------------------------------------------------------------------------------------------------------


def _errors() -> str:
    tree = (errors.__doc__ or "").partition("\n\n")[2].partition("\n\n")[0]
    about = """
        All errors are in `lsmlake.errors`, under `LakeError`. The library raises no other exceptions, except
        `MemoryError` and those that are not an `Exception`, such as `KeyboardInterrupt`.

        A message says where and what happened, what was expected, what was found, and what to do. The parts are
        attributes: `where`, `what`, `expected`, `found` and `cure`.
    """
    parts = ["# Errors", _paragraphs(about)]
    parts.append(f"```text\n{inspect.cleandoc(tree)}\n```")
    for name, error in error_classes().items():
        bases = [base.__name__ for base in error.__bases__ if base is not errors.LakeError]
        summary = inspect.getdoc(error).partition("\n\n")[0].replace("\n", " ")
        parts += [f"## {name}", summary + (f" Also a `{bases[0]}`." if bases and bases != ["Exception"] else "")]
    return _page(parts)


def error_classes() -> Mapping[str, type[errors.LakeError]]:
    """Name -> class, in the order of the module."""
    members = vars(errors).items()
    return {name: each for name, each in members if isinstance(each, type) and issubclass(each, errors.LakeError)}


# -- public names -----------------------------------------------------------------------------------------------------

_API: Mapping[str, tuple[str, str, Sequence[str]]] = {
    "api": ("The module lsmlake", "Where a program begins.", ("connect", "ship", "register", "ANY")),
    "api_lake": ("Lake", "The databases and tables of one warehouse.", ("Lake", "RefreshReport", "SyncReport")),
    "api_table": ("Table", "The verbs of one table.", ("Table", "Merge", "DmlReport", "CompactionReport")),
    "api_reads": ("Scan, ScanSplit and Result", "What reads and queries return.", ("Scan", "ScanSplit", "Result")),
    "api_changes": ("Changes", "Changes between snapshots, and the batches of `follow`.", ("Changes", "ChangeBatch")),
    "api_cdc": ("The module lsmlake.cdc", "Change events of other systems.", ("cdc.decode", "cdc.ChangeFormat")),
    "api_alterations": (
        "Alterations",
        "The arguments of `Table.alter`.",
        (
            "add_column",
            "rename_column",
            "drop_column",
            "move_column",
            "change_type",
            "set_not_null",
            "drop_not_null",
            "set_default",
            "drop_default",
            "set_comment",
            "set_option",
            "unset_option",
            "add_partition_field",
            "drop_partition_field",
            "replace_partition_field",
        ),
    ),
}
"""Page -> its title, what it is about, and the public names on it."""

_PROTOCOLS = {"__getitem__", "__len__", "__arrow_c_stream__"}
"""Methods that users call by other means than their names."""


def _api(title: str, about: str, names: Sequence[str]) -> str:
    return _page([f"# {title}", about, *map(_directive, names)])


def _directive(name: str) -> str:
    """The directive that lets mkdocstrings describe a public name, and of a class those members that users call."""
    module, name = (cdc, name.removeprefix("cdc.")) if name.startswith("cdc.") else (lsmlake, name)
    value, home = getattr(module, name), module._HOMES[name]
    if not isinstance(value, type):
        return f"::: {home}.{name}"
    members = list(public_members(value))
    return "\n".join([f"::: {home}.{name}", "    options:", f"      members: [{', '.join(members)}]"])


def public_members(of: type) -> Iterator[str]:
    """The names of a public class that users have a use for, in the order of their definitions."""
    offers = {name for name in offered(dir(of)) if not name.startswith("_") or name in _PROTOCOLS}
    for base in of.__mro__:
        for name in vars(base):
            if name in offers and base.__module__.startswith("lsmlake."):
                offers.remove(name)
                yield name


# -- Markdown ---------------------------------------------------------------------------------------------------------


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return (
        " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
        if "`" not in text
        else " ".join(text.split()).replace("|", "\\|")
    )
