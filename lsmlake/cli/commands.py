"""The commands by name: the line for `--help`, and the module to load when the command is called.

Command modules load PyArrow and more, which takes longer than printing help or completing a word. A test compares the lines here
with the docstrings of the commands.
"""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """A command: a function of the command's name in `module`."""

    module: str
    summary: str


COMMANDS = {
    "demo": CommandEntry("lsmlake.cli.demo.command", "Run a year of real flights through a table."),
    "ls": CommandEntry("lsmlake.cli.listing_commands", "List the tables of the warehouse."),
    "show": CommandEntry("lsmlake.cli.listing_commands", "Show a table on one page: schema, size, LSM tree."),
    "sql": CommandEntry("lsmlake.cli.sql_commands", "Run SQL statements, or a shell for them."),
    "load": CommandEntry("lsmlake.cli.load", "Insert, replace or append the rows of files, as one commit."),
    "sync": CommandEntry("lsmlake.cli.sync_command", "Apply change events of many tables to a database."),
    "adopt": CommandEntry("lsmlake.cli.load", "Make a table of an Iceberg or Delta table, or Parquet files."),
    "truncate": CommandEntry("lsmlake.cli.upkeep_commands", "Remove all rows of a table, as one commit."),
    "head": CommandEntry("lsmlake.cli.row_commands", "Show some rows of a table."),
    "get": CommandEntry("lsmlake.cli.get", "Print the row of a key."),
    "export": CommandEntry("lsmlake.cli.sql_commands", "Write the rows of a table to a file or to standard output."),
    "changes": CommandEntry("lsmlake.cli.row_commands", "List the changes between two snapshots of a table."),
    "follow": CommandEntry("lsmlake.cli.follow_command", "Print the changes of a table as lines, as they are committed."),
    "history": CommandEntry("lsmlake.cli.history_command", "Keep the versions of a table's rows in another table."),
    "refresh": CommandEntry("lsmlake.cli.refresh_command", "Bring a view table up to date with the tables of its query."),
    "compact": CommandEntry("lsmlake.cli.upkeep_commands", "Merge the sorted runs of a table."),
    "rescale": CommandEntry("lsmlake.cli.upkeep_commands", "Give the partitions of a table another number of buckets."),
    "analyze": CommandEntry("lsmlake.cli.upkeep_commands", "Compute statistics of a table's rows, as one commit."),
    "snapshots": CommandEntry("lsmlake.cli.listing_commands", "List the snapshots of a table, the oldest first."),
    "files": CommandEntry("lsmlake.cli.listing_commands", "List the live data files of a table."),
    "partitions": CommandEntry("lsmlake.cli.listing_commands", "List the partitions of a table."),
    "system": CommandEntry("lsmlake.cli.row_commands", "Show a system table of a table, such as audit_log."),
    "tag": CommandEntry("lsmlake.cli.names", "List, create, rename or delete the tags of a table."),
    "consumers": CommandEntry("lsmlake.cli.names", "List the consumers of a table and what each reads next."),
    "branch": CommandEntry("lsmlake.cli.names", "List, create, rename, delete or fast-forward to branches."),
    "rollback": CommandEntry("lsmlake.cli.upkeep_commands", "Go back to an older snapshot, as a new commit."),
    "expire": CommandEntry("lsmlake.cli.upkeep_commands", "Remove old snapshots and the files that only they use."),
    "copy": CommandEntry("lsmlake.cli.upkeep_commands", "Copy a table at one snapshot into another warehouse."),
    "orphans": CommandEntry("lsmlake.cli.upkeep_commands", "Remove files that nothing names."),
    "iceberg": CommandEntry("lsmlake.cli.upkeep_commands", "Publish a table for readers of Apache Iceberg."),
    "maintain": CommandEntry("lsmlake.cli.maintenance_commands", "Do what is due in all tables, once or again and again."),
    "health": CommandEntry("lsmlake.cli.maintenance_commands", "Show the health of all tables."),
    "serve": CommandEntry("lsmlake.cli.serve_command", "Serve a warehouse to other engines, until Ctrl-C or SIGTERM."),
    "verify": CommandEntry("lsmlake.cli.repair_commands", "Check all invariants and checksums of a table."),
    "repair": CommandEntry("lsmlake.cli.repair_commands", "List or repair rows that cannot be merged."),
    "alter": CommandEntry("lsmlake.cli.alter_command", "Change columns and options of a table, as one commit."),
    "options": CommandEntry("lsmlake.cli.listing_commands", "List the options of a table, or all supported options."),
    "docs": CommandEntry("lsmlake.cli.docs", "Print a document, such as sql, iceberg or format."),
}
ON_SPARK = frozenset(("demo", "compact", "rescale", "maintain"))
"""The commands that may start Spark."""
