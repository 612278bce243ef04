"""The summary of a table: its definition, its contents, and a picture of one bucket."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lsmlake.format.data_files import Bucket, BucketState
from lsmlake.format.snapshot import Snapshot
from lsmlake.maintain.version_listings import partition_text
from lsmlake.options.option_types import AUTO
from lsmlake.report.listing import QUIET, CellKind, Listing, ListingColumn
from lsmlake.report.text import human_bytes, human_count, human_share, printable, utc_stamp, utc_time
from lsmlake.report.tree_rows import TreeRow, tree_rows
from lsmlake.schema.schema import Schema
from lsmlake.types.column_types import COMMENT
from lsmlake.types.type_text import format_columns, format_type_of


@dataclass(frozen=True)
class Summary:
    """The summary. `states`: all buckets of `snapshot`. `bucket`: the bucket to draw, or None; `why`: why it was chosen."""

    name: str
    path: str
    schema: Schema
    snapshot: Snapshot | None
    states: Mapping[Bucket, BucketState]
    bucket: Bucket | None
    why: str = ""

    # -- contents -----------------------------------------------------------------------------------------------------

    @property
    def runs(self) -> list[TreeRow]:
        """The sorted runs of the bucket, newest first."""
        return tree_rows(self.states[self.bucket]) if self.bucket in self.states else []

    def _sums(self) -> dict[str, int]:
        files = [file for state in self.states.values() for file in state.files]
        stored, waiting = sum(file.rows for file in files), sum(file.rows for file in files if file.level == 0)
        dead = {name: ref.cardinality for state in self.states.values() for name, ref in state.vectors.items()}
        waiting -= sum(dead.get(file.name, 0) for file in files if file.level == 0)
        return {
            "live_rows": stored - waiting - sum(dead.values()),
            "dead_rows": sum(dead.values()),
            "waiting_rows": waiting,
            "files": len(files),
            "bytes": sum(file.bytes for file in files),
            "partitions": len({state.bucket.partition_key for state in self.states.values()}),
            "buckets": len(self.states),
        }

    def _columns(self) -> list[str]:
        return [format_columns(pa.schema([column])) for column in self.schema.shown_fields]

    # -- as data ------------------------------------------------------------------------------------------------------

    def record(self) -> dict[str, object]:
        """Returns all facts for JSON. `live_rows`: rows at levels >= 1 that are not deleted; `waiting_rows`: rows at level 0."""
        schema = self.schema
        return {
            "name": self.name,
            "path": self.path,
            "comment": schema.comment,
            "columns": [_column_record(column) for column in schema.shown_fields],
            "ddl": ", ".join(self._columns()),
            "primary_key": list(schema.primary_key),
            "partition_by": list(schema.partition_by),
            "options": dict(schema.options),
            "snapshot": _snapshot_record(self.snapshot),
            **self._sums(),
            "bucket": self._bucket_record(),
        }

    def _bucket_record(self) -> dict[str, object] | None:
        if self.bucket is None:
            return None
        partition = partition_text(self.schema, self.bucket)
        return {"partition": partition, "bucket": self.bucket.number, "runs": [run._asdict() for run in self.runs]}

    # -- for people ---------------------------------------------------------------------------------------------------

    def __rich_console__(self, console: object, options: object) -> Iterator[object]:
        from rich.table import Table as Grid
        from rich.text import Text

        from lsmlake.report.tree_picture import tree_picture

        grid = Grid.grid(padding=(0, 2, 0, 0))
        grid.add_column(style=QUIET, no_wrap=True)
        grid.add_column(overflow="fold")
        for label, text in self._facts():
            grid.add_row(Text(label), Text(text))
        yield grid
        if self.bucket is not None:
            yield ""
            yield tree_picture(self.runs, title=self._bucket_text() + (f" ({self.why})" if self.why else ""))

    def lines(self) -> Iterator[str]:
        """Yields plain text: one line per fact with exact numbers, then the runs of the bucket."""
        facts = self._exact_facts()
        width = max(map(len, facts))
        yield from (f"{label:{width}}  {printable(str(value))}".rstrip() for label, value in facts.items())
        if self.bucket is not None:
            yield ""
            yield from _runs_listing(self.runs).lines()

    def _facts(self) -> Iterator[tuple[str, str]]:
        schema, sums, snapshot = self.schema, self._sums(), self.snapshot
        yield "table", self.name
        yield "path", printable(self.path)
        if schema.comment:
            yield "comment", printable(schema.comment)
        yield "columns", ",\n".join(map(printable, self._columns()))
        yield "key", printable(", ".join(schema.primary_key)) or "none: append-only"
        if schema.partition_by:
            yield "partitions", f"{human_count(sums['partitions'])} by {printable(', '.join(schema.partition_by))}"
        yield "buckets", self._buckets()
        if schema.options:
            yield "options", "\n".join(f"{name} = {printable(value)}" for name, value in schema.options.items())
        if snapshot is None:
            yield "snapshot", "none: nothing was written yet"
            return
        time = f"{utc_time(_moment(snapshot))} UTC"
        yield "snapshot", f"{snapshot.id} of {time}, {snapshot.kind} by {printable(snapshot.writer_id)}"
        stored = sums["live_rows"] + sums["dead_rows"] + sums["waiting_rows"]
        dead = f"{human_count(sums['dead_rows'])} dead ({human_share(sums['dead_rows'], stored)})"
        yield "rows", f"{human_count(sums['live_rows'])} live, {dead}, {human_count(sums['waiting_rows'])} waiting in level 0"
        yield "files", f"{human_count(sums['files'])}, {human_bytes(sums['bytes'])}"

    def _buckets(self) -> str:
        """The option, and how many buckets a partition has, if they differ."""
        wanted, each = self.schema.parsed_options.layout.buckets, " a partition" if self.schema.partition_by else ""
        text, totals = str(wanted) if wanted == AUTO else f"{wanted:,}", {state.total_buckets for state in self.states.values()}
        if (wanted == AUTO and not self.schema.bucket_key) or totals <= {self.schema.parsed_options.layout.first_buckets}:
            return text + each
        counts = sorted(Counter(bucket.partition_key for bucket in self.states).values())
        return f"{text}, now {counts[0]:,}" + (f" to {counts[-1]:,}" if counts[0] < counts[-1] else "") + each

    def _exact_facts(self) -> dict[str, object]:
        schema, snapshot = self.schema, self.snapshot
        return {
            "name": self.name,
            "path": self.path,
            "comment": schema.comment or "-",
            "columns": ", ".join(self._columns()),
            "primary_key": ", ".join(schema.primary_key) or "-",
            "partition_by": ", ".join(schema.partition_by) or "-",
            "options": ", ".join(f"{name}={value}" for name, value in schema.options.items()) or "-",
            "snapshot": snapshot.id if snapshot else "-",
            "commit_time": utc_stamp(_moment(snapshot)) if snapshot else "-",
            **self._sums(),
            "bucket": self._bucket_text() if self.bucket else "-",
        }

    def _bucket_text(self) -> str:
        partition = partition_text(self.schema, self.bucket)
        return ", ".join(filter(None, [partition and printable(partition), f"bucket {self.bucket.number}"]))


def _column_record(column: pa.Field) -> dict[str, object]:
    comment = (column.metadata or {}).get(COMMENT, b"").decode() or None
    return {"name": column.name, "type": format_type_of(column), "nullable": column.nullable, "comment": comment}


def _snapshot_record(snapshot: Snapshot | None) -> dict[str, object] | None:
    if snapshot is None:
        return None
    return {
        "snapshot_id": snapshot.id,
        "schema_id": snapshot.schema_id,
        "writer_id": snapshot.writer_id,
        "commit_id": snapshot.commit_id,
        "commit_kind": snapshot.kind,
        "commit_time": _moment(snapshot),
        "total_record_count": snapshot.total_rows,
        "delta_record_count": snapshot.delta_rows,
    }


def _moment(snapshot: Snapshot) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(snapshot.time_ms / 1000, datetime.timezone.utc)


def _runs_listing(runs: list[TreeRow]) -> Listing:
    text = ("min_key", "max_key")
    values = {name: [getattr(run, name) for run in runs] for name in TreeRow._fields}
    return Listing(
        tuple(ListingColumn(name, CellKind.TEXT if name in text else CellKind.NUMBER, values[name]) for name in values)
    )
