"""`lsmlake verify`: check that the files on disk are what was written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import typer

from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.guard import FAILED
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import progress_bar
from lsmlake.maintain.verify import verify as find
from lsmlake.report.text import counted, printable
from lsmlake.tables.finding import Finding
from lsmlake.tables.metadata import Metadata

_DATA = ".parquet"


def verify(ctx: typer.Context, table: TableName, json: Json = False, warehouse: Warehouse = None, debug: Debug = False) -> None:
    """Check all invariants and checksums of a table.

    Reads every file of all snapshots. Prints one line per finding; the exit code is 1 if there is any.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table)
    findings, files = _watched(found.meta)
    texts = tuple(map(_line, findings)) or (f"{found.name}: sound, {_checked(found.meta, files)} checked",)
    emit([finding._asdict() for finding in findings], Sentences(texts), json)
    if findings:
        typer.echo(f"error: {found.name}: {counted(len(findings), 'finding')}, {_checked(found.meta, files)} checked", err=True)
        raise typer.Exit(FAILED)


def _watched(meta: Metadata) -> tuple[list[Finding], int]:
    """The findings, and how many data files were read for them."""
    on_disk = sum(entry.path.endswith(_DATA) for entry in meta.env.storage.list(meta.paths.root))
    read = 0
    with progress_bar() as progress:
        task = progress.add_task("reading files", total=on_disk)

        def count(place: str) -> None:
            nonlocal read
            if place.endswith(_DATA):
                read += 1
                progress.update(task, completed=read)

        return find(meta, count), read


def _checked(meta: Metadata, files: int) -> str:
    return f"{counted(len(meta.snapshots.ids()), 'snapshot')} and {counted(files, 'data file')}"


def _line(finding: Finding) -> str:
    """The place, unless an error of the library names it already, the finding, and what needs the file."""
    text = finding.what if finding.what.startswith(finding.where) else f"{finding.where}: {finding.what}"
    kinds = (
        ("snapshot", "snapshots", finding.snapshots, _spans(finding.snapshots)),
        ("tag", "tags", finding.tags, finding.tags),
        ("branch", "branches", finding.branches, finding.branches),
    )
    needed = [f"{one if len(all_) == 1 else many} {', '.join(texts)}" for one, many, all_, texts in kinds if all_]
    return printable(f"{text} (needed by {'; '.join(needed)})" if needed else text)


def _spans(numbers: Sequence[int]) -> Iterator[str]:
    """Ascending numbers as text: '1', '3-7'."""
    for _, span in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        found = [number for _, number in span]
        yield str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}"
