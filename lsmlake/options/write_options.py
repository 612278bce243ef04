"""Options of writing and reading: what a writer drops, buffers and compacts, how statements are isolated, how often a commit is
tried. The isolation options of DELETE, UPDATE and MERGE have Apache Iceberg's names.
"""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.options.option import Tables, option
from lsmlake.options.option_types import boolean, column, duration, integer, one_of, size, text


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
    driver_statement_bytes: int = option(
        "write.driver-statement-size",
        size,
        256 << 20,
        "Spark, classic session: the driver executes an UPDATE, DELETE or MERGE as without Spark if the columns that it reads"
        " take about this much memory at most, and so do the changed rows; 0: never",
        own=True,
    )


SERIALIZABLE, SNAPSHOT = ISOLATIONS = "serializable", "snapshot"

_LEVEL = one_of(*ISOLATIONS)
_MEANING = (
    "the isolation of {}, unless a call names one: serializable evaluates the statement again also if other commits added rows"
    " that satisfy its condition; snapshot leaves such rows as they are"
)


@dataclass(frozen=True)
class IsolationOptions:
    delete: str = option("write.delete.isolation-level", _LEVEL, SERIALIZABLE, _MEANING.format("delete()"), own=True)
    update: str = option("write.update.isolation-level", _LEVEL, SERIALIZABLE, _MEANING.format("update()"), own=True)
    merge: str = option("write.merge.isolation-level", _LEVEL, SERIALIZABLE, _MEANING.format("merge()"), own=True)


@dataclass(frozen=True)
class CommitOptions:
    retries: int = option("commit.max-retries", integer(0), 10, "attempts after the first one, if other commits come first")
    wait_min_ms: int = option("commit.min-retry-wait", duration, 10, "first wait between attempts")
    wait_max_ms: int = option("commit.max-retry-wait", duration, 10_000, "longest wait between attempts")
    manifest_target_bytes: int = option("manifest.target-file-size", size, 1 << 20, "size of merged manifests")
    manifest_merge_count: int = option("manifest.merge-min-count", integer(2), 30, "small manifests that start a merge")


@dataclass(frozen=True)
class ReadOptions:
    vector_broadcast_bytes: int = option(
        "read.vector-broadcast-limit",
        size,
        64 << 20,
        "Spark: larger deletion vectors are applied in Arrow tasks instead of by a broadcast",
        own=True,
    )
    fallback_branch: str | None = option(
        "scan.fallback-branch", text, None, "batch reads take the partitions that the table lacks from this branch"
    )
    primary_branch: str | None = option(
        "scan.primary-branch",
        text,
        None,
        "batch reads take the partitions that this branch has from it, and the others from the table",
    )
