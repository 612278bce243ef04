"""The commands that find damage and repair it: rows that cannot be merged, snapshots, Iceberg metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby

from lsmlake.api.table import Table
from lsmlake.cli.command_maker import CommandResult
from lsmlake.cli.progress import busy, progress_bar
from lsmlake.errors import InvalidQuery
from lsmlake.iceberg.mirror_repair import repair_iceberg
from lsmlake.maintain.repair import RepairReport
from lsmlake.maintain.repair_snapshots import repair_snapshots
from lsmlake.maintain.verify import verify as find
from lsmlake.report.text import counted, printable
from lsmlake.schema.values import json_rows
from lsmlake.tables.finding import Finding
from lsmlake.tables.version import Metadata

_DATA = ".parquet"


def verify(table: Table) -> CommandResult:
    """Check all invariants and checksums of a table.

    Reads every file of all snapshots. Prints one line per finding; the exit code is 1 if there is any.
    """
    findings, files = _watched(table.meta)
    checked = f"{counted(len(table.meta.snapshots.ids()), 'snapshot')} and {counted(files, 'data file')} checked"
    errors = [f"{table.name}: {counted(len(findings), 'finding')}, {checked}"] if findings else []
    texts = tuple(map(_line, findings)) or (f"{table.name}: sound, {checked}",)
    return CommandResult([finding._asdict() for finding in findings], texts, errors)


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
        run = [number for _, number in span]
        yield str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"


def repair(
    table: Table,
    *,
    action: str | None = None,
    key: list[str] | None = None,
    snapshots: bool = False,
    roll_back_to: int | None = None,
    drop: list[int] | None = None,
    iceberg: bool = False,
) -> CommandResult:
    """List or repair rows that cannot be merged.

    Such a row makes every scan and compaction of its bucket fail. An example is a row that takes a sum beyond its type.

    Args:
        action (null|drop): Set the failing columns to null, or drop the rows. Default: only list the rows that drop would remove.
        key (JSON): Only this key, as in '{"order_id": 7}'; may be repeated.
        snapshots: Examine the newest snapshots instead of rows; change nothing.
        roll_back_to (N): Roll back to this snapshot, the newest sound one.
        drop (N): Drop this unreadable snapshot; may be repeated.
        iceberg: Compare Iceberg metadata with the table; if it differs, make it anew.
    """
    of_rows, of_snapshots = bool(action or key), bool(snapshots or roll_back_to is not None or drop)
    if of_rows + of_snapshots + iceberg > 1:
        raise InvalidQuery(
            "rows, snapshots and Iceberg metadata are repaired one after the other",
            where=table.name,
            cure="leave the flags of the others out, such as --action, --roll-back-to or --iceberg",
        )
    if snapshots and (roll_back_to is not None or drop):
        given = "--roll-back-to" if roll_back_to is not None else "--drop"
        what = "--snapshots only examines, and changes nothing"
        raise InvalidQuery(what, where=table.name, found=given, cure=f"leave out --snapshots or {given}")
    if of_snapshots:
        data, lines = _repair_snapshots(table, roll_back_to, drop or [])
    elif iceberg:
        data, lines = _repair_iceberg(table)
    else:
        report = table.repair(action=action, keys=[_parsed(one) for one in key] if key else None)
        data = {"snapshot_id": report.snapshot_id, "rows": list(json_rows(report.rows))}
        lines = _lines(table.name, report, action)
    return CommandResult(data, tuple(map(printable, lines)))


def _repair_iceberg(table: Table) -> tuple[object, list[str]]:
    with busy("reading files") as say:
        findings = repair_iceberg(table.meta, lambda what: say(what.rpartition("/")[2]))
    done = "its Iceberg metadata was made anew" if findings else "its Iceberg metadata needs no repair"
    data = [{"where": one.where, "what": one.what} for one in findings]
    return {"findings": data}, [*(one.what for one in findings), f"{table.name}: {done}"]


def _repair_snapshots(table: Table, roll_back_to: int | None, drop: list[int]) -> tuple[object, list[str]]:
    with busy("reading files") as say:
        report = repair_snapshots(table.meta, roll_back_to, drop, table.name, lambda what: say(what.rpartition("/")[2]))
    rows = report.snapshots.to_pylist()
    lines = [f"snapshot {row['snapshot_id']}: {row['state']}{'; ' + row['finding'] if row['finding'] else ''}" for row in rows]
    if report.newest_sound is None:
        lines.append(f"{table.name}: no snapshot is sound")
    if report.snapshot_id is not None:
        lines.append(f"{table.name}: rolled back to snapshot {report.newest_sound}, as snapshot {report.snapshot_id}")
    if report.dropped:
        lines.append(f"{table.name}: dropped {', '.join(map(str, report.dropped))}")
    data = {"newest_sound": report.newest_sound, "snapshot_id": report.snapshot_id, "dropped": report.dropped}
    return {"snapshots": rows, **data}, lines


def _parsed(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        expected = 'JSON such as {"order_id": 7}'
        raise InvalidQuery("not a key", where="--key", expected=expected, found=repr(text), cure="correct it")
    return value


def _lines(name: str, report: RepairReport, action: str | None) -> list[str]:
    rows = report.rows.to_pylist()
    lines = [f"{row['row']}: {row['reason']}, columns {', '.join(row['columns'])}, snapshot {row['snapshot_id']}" for row in rows]
    if not rows:
        return [f"{name}: no row to repair"]
    if report.snapshot_id is None:
        return [*lines, f"{name}: {counted(len(rows), 'row')} to repair; add --action null or --action drop"]
    done = "dropped" if action == "drop" else "repaired: their failing columns are null"
    return [*lines, f"{name}: {counted(len(rows), 'row')} {done}, snapshot {report.snapshot_id}"]
