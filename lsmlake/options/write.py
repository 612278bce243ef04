"""Options of writing: what a writer drops, buffers and compacts."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.options.option import Tables, option
from lsmlake.options.types import boolean, column, integer, size


@dataclass(frozen=True)
class WriteOptions:
    write_only: bool = option("write-only", boolean, False, "writers never compact; a separate job does")
    buffer_bytes: int = option("write-buffer-size", size, 256 << 20, "rows that a writer sorts in memory before it spills")
    rowkind_field: str | None = option(
        "rowkind.field", column, None, "column that holds '+I', '-U', '+U' or '-D'", tables=Tables.KEYED
    )
    ignore_delete: bool = option(
        "ignore-delete",
        boolean,
        False,
        "drop -D and -U rows before they are written; also as <engine>.ignore-delete",
        tables=Tables.KEYED,
    )
    ignore_update_before: bool = option(
        "ignore-update-before", boolean, False, "drop -U rows before they are written", tables=Tables.KEYED
    )
    merge_schema: bool = option(
        "write.merge-schema", boolean, False, "add the columns of written data that the table lacks, as upsert(evolve=True) does"
    )
    collect_rows: int = option(
        "write.collect-rows",
        integer(0),
        250_000,
        "Spark, classic session: after a batch of at most this many rows the driver fetches and writes the next batch itself,"
        " which saves small batches most of their time; 0: executors write every batch",
        own=True,
    )
