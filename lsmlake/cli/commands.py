"""The commands by name: the line for `--help`, and the module to load when the command is called.

Command modules load PyArrow and more, which takes longer than printing help or completing a word. A test compares the lines here
with the docstrings of the commands.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import typer
from typer.core import TyperGroup

CONTEXT = {"help_option_names": ["-h", "--help"]}


class Entry(NamedTuple):
    """A command: a function of the command's name in `module`."""

    module: str
    summary: str


COMMANDS = {
    "demo": Entry("lsmlake.cli.demo.command", "Run a year of real flights through a table."),
    "ls": Entry("lsmlake.cli.ls", "List the tables of the warehouse."),
    "show": Entry("lsmlake.cli.show", "Show a table on one page: schema, size, LSM tree."),
    "sql": Entry("lsmlake.cli.sql", "Run SQL statements, or a shell for them."),
    "load": Entry("lsmlake.cli.load", "Insert, replace or append the rows of files, as one commit."),
    "adopt": Entry("lsmlake.cli.adopt", "Make a table of an Iceberg or Delta table, or Parquet files."),
    "truncate": Entry("lsmlake.cli.truncate", "Remove all rows of a table, as one commit."),
    "head": Entry("lsmlake.cli.head", "Show some rows of a table."),
    "changes": Entry("lsmlake.cli.changes", "List the changes between two snapshots of a table."),
    "compact": Entry("lsmlake.cli.compact", "Merge the sorted runs of a table."),
    "analyze": Entry("lsmlake.cli.analyze", "Compute statistics of a table's rows, as one commit."),
    "snapshots": Entry("lsmlake.cli.snapshots", "List the snapshots of a table, the oldest first."),
    "files": Entry("lsmlake.cli.files", "List the live data files of a table."),
    "partitions": Entry("lsmlake.cli.partitions", "List the partitions of a table."),
    "system": Entry("lsmlake.cli.system", "Show a system table of a table, such as audit_log."),
    "tag": Entry("lsmlake.cli.tag", "List, create, rename or delete the tags of a table."),
    "consumers": Entry("lsmlake.cli.consumers", "List the consumers of a table and what each reads next."),
    "branch": Entry("lsmlake.cli.branch", "List, create, rename, delete or fast-forward to branches."),
    "rollback": Entry("lsmlake.cli.rollback", "Go back to an older snapshot, as a new commit."),
    "expire": Entry("lsmlake.cli.expire", "Remove old snapshots and the files that only they use."),
    "copy": Entry("lsmlake.cli.copy", "Copy a table at one snapshot into another warehouse."),
    "orphans": Entry("lsmlake.cli.orphans", "Remove files that nothing names."),
    "iceberg": Entry("lsmlake.cli.iceberg", "Publish a table for readers of Apache Iceberg."),
    "verify": Entry("lsmlake.cli.verify", "Check all invariants and checksums of a table."),
    "repair": Entry("lsmlake.cli.repair", "List or repair rows that cannot be merged."),
    "alter": Entry("lsmlake.cli.alter", "Change columns and options of a table, as one commit."),
    "options": Entry("lsmlake.cli.options", "List the options of a table, or all supported options."),
    "docs": Entry("lsmlake.cli.docs", "Print a document, such as sql, iceberg or format."),
}
ON_SPARK = frozenset(("demo", "compact"))
"""The commands that may start Spark."""


def single(name: str):
    """The command `name`, with its arguments, as Typer builds it."""
    own = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    own.command(name, context_settings=CONTEXT)(getattr(import_module(COMMANDS[name].module), name))
    return typer.main.get_command(own)


class LazyGroup(TyperGroup):
    """Loads a command when it is called or completed; until then it is represented by an empty command."""

    def resolve_command(self, ctx: typer.Context, args: list[str]):
        name, found, rest = super().resolve_command(ctx, args)
        return name, found and single(name), rest


def add_to(app: typer.Typer) -> None:
    """Give `app` an empty command for each entry."""
    for name, entry in COMMANDS.items():
        app.command(name, help=entry.summary)(_empty)


def _empty() -> None:
    raise AssertionError("LazyGroup puts the real command in this place")
