"""The commands by name: the line for `--help`, and the module to load when the command is called.

Command modules load PyArrow and more, which takes longer than printing help or completing a word. A test compares the lines here
with the docstrings of the commands.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A command: a function of the command's name in `module`."""

    module: str
    summary: str


COMMANDS = {
    "demo": Entry("lsmlake.cli.demo.command", "Run a year of real flights through a table."),
    "ls": Entry("lsmlake.cli.listings", "List the tables of the warehouse."),
    "show": Entry("lsmlake.cli.listings", "Show a table on one page: schema, size, LSM tree."),
    "sql": Entry("lsmlake.cli.sql", "Run SQL statements, or a shell for them."),
    "load": Entry("lsmlake.cli.load", "Insert, replace or append the rows of files, as one commit."),
    "adopt": Entry("lsmlake.cli.load", "Make a table of an Iceberg or Delta table, or Parquet files."),
    "truncate": Entry("lsmlake.cli.upkeep", "Remove all rows of a table, as one commit."),
    "head": Entry("lsmlake.cli.rows", "Show some rows of a table."),
    "export": Entry("lsmlake.cli.sql", "Write the rows of a table to a file or to standard output."),
    "changes": Entry("lsmlake.cli.rows", "List the changes between two snapshots of a table."),
    "compact": Entry("lsmlake.cli.upkeep", "Merge the sorted runs of a table."),
    "analyze": Entry("lsmlake.cli.upkeep", "Compute statistics of a table's rows, as one commit."),
    "snapshots": Entry("lsmlake.cli.listings", "List the snapshots of a table, the oldest first."),
    "files": Entry("lsmlake.cli.listings", "List the live data files of a table."),
    "partitions": Entry("lsmlake.cli.listings", "List the partitions of a table."),
    "system": Entry("lsmlake.cli.rows", "Show a system table of a table, such as audit_log."),
    "tag": Entry("lsmlake.cli.names", "List, create, rename or delete the tags of a table."),
    "consumers": Entry("lsmlake.cli.names", "List the consumers of a table and what each reads next."),
    "branch": Entry("lsmlake.cli.names", "List, create, rename, delete or fast-forward to branches."),
    "rollback": Entry("lsmlake.cli.upkeep", "Go back to an older snapshot, as a new commit."),
    "expire": Entry("lsmlake.cli.upkeep", "Remove old snapshots and the files that only they use."),
    "copy": Entry("lsmlake.cli.upkeep", "Copy a table at one snapshot into another warehouse."),
    "orphans": Entry("lsmlake.cli.upkeep", "Remove files that nothing names."),
    "iceberg": Entry("lsmlake.cli.upkeep", "Publish a table for readers of Apache Iceberg."),
    "verify": Entry("lsmlake.cli.repair", "Check all invariants and checksums of a table."),
    "repair": Entry("lsmlake.cli.repair", "List or repair rows that cannot be merged."),
    "alter": Entry("lsmlake.cli.alter", "Change columns and options of a table, as one commit."),
    "options": Entry("lsmlake.cli.listings", "List the options of a table, or all supported options."),
    "docs": Entry("lsmlake.cli.docs", "Print a document, such as sql, iceberg or format."),
}
ON_SPARK = frozenset(("demo", "compact"))
"""The commands that may start Spark."""
