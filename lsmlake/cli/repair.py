"""`lsmlake repair`: rows that cannot be merged with the older rows of their key, damaged snapshots, and Iceberg metadata."""

from __future__ import annotations

import json as json_text
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from lsmlake.api.table import Table
from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.opening import open_lake, open_table
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.progress import spinner
from lsmlake.errors import InvalidQuery
from lsmlake.iceberg.repair import repair_iceberg
from lsmlake.maintain.repair import RepairReport
from lsmlake.maintain.repair_snapshots import repair_snapshots
from lsmlake.report.text import counted, printable
from lsmlake.schema.values import json_rows

Action = Annotated[
    str | None,
    typer.Option(
        "--action",
        metavar="null|drop",
        help="Set the failing columns to null, or drop the rows. Default: only list the rows that drop would remove.",
    ),
]
Key = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="JSON", help="Only this key, as in '{\"order_id\": 7}'; may be repeated."),
]

Snapshots = Annotated[bool, typer.Option("--snapshots", help="Examine the newest snapshots instead of rows; change nothing.")]
RollBackTo = Annotated[
    int | None, typer.Option("--roll-back-to", metavar="N", help="Roll back to this snapshot, the newest sound one.")
]
Iceberg = Annotated[bool, typer.Option("--iceberg", help="Compare Iceberg metadata with the table; if it differs, make it anew.")]
Drop = Annotated[list[int] | None, typer.Option("--drop", metavar="N", help="Drop this unreadable snapshot; may be repeated.")]


def repair(
    ctx: typer.Context,
    table: TableName,
    action: Action = None,
    key: Key = None,
    snapshots: Snapshots = False,
    roll_back_to: RollBackTo = None,
    drop: Drop = None,
    iceberg: Iceberg = False,
    json: Json = False,
    warehouse: Warehouse = None,
    debug: Debug = False,
) -> None:
    """List or repair rows that cannot be merged.

    Such a row makes every scan and compaction of its bucket fail. An example is a row that takes a sum beyond its type.
    """
    found = open_table(open_lake(ctx, warehouse, debug), table)
    of_rows, of_snapshots = bool(action or key), bool(snapshots or roll_back_to is not None or drop)
    if of_rows + of_snapshots + iceberg > 1:
        raise InvalidQuery(
            "rows, snapshots and Iceberg metadata are repaired one after the other",
            where=table,
            cure="leave the flags of the others out, such as --action, --roll-back-to or --iceberg",
        )
    if of_snapshots:
        _repair_snapshots(found, roll_back_to, drop or [], json)
        return
    if iceberg:
        _repair_iceberg(found, json)
        return
    report = found.repair(action=action, keys=[_parsed(one) for one in key] if key else None)
    rows = list(json_rows(report.rows))
    emit(
        {"snapshot_id": report.snapshot_id, "rows": rows},
        Sentences(tuple(map(printable, _lines(found.name, report, action)))),
        json,
    )


@contextmanager
def _shown() -> Iterator[Callable[[str], None]]:
    """A context that shows each file that is read."""
    with spinner() as progress:
        task = progress.add_task("reading files", total=None)
        yield lambda what: progress.update(task, description=what.rpartition("/")[2])


def _repair_iceberg(table: Table, json: bool) -> None:
    with _shown() as show:
        found = repair_iceberg(table.meta, show)
    lines = [one.what for one in found]
    lines.append(f"{table.name}: {'its Iceberg metadata was made anew' if found else 'its Iceberg metadata needs no repair'}")
    data = [{"where": one.where, "what": one.what} for one in found]
    emit({"findings": data}, Sentences(tuple(map(printable, lines))), json)


def _repair_snapshots(table: Table, roll_back_to: int | None, drop: list[int], json: bool) -> None:
    with _shown() as show:
        report = repair_snapshots(table.meta, roll_back_to, drop, table.name, show)
    rows = report.snapshots.to_pylist()
    lines = [f"snapshot {row['snapshot_id']}: {row['state']}{'; ' + row['finding'] if row['finding'] else ''}" for row in rows]
    if report.newest_sound is None:
        lines.append(f"{table.name}: no snapshot is sound")
    if report.snapshot_id is not None:
        lines.append(f"{table.name}: rolled back to snapshot {report.newest_sound}, as snapshot {report.snapshot_id}")
    if report.dropped:
        lines.append(f"{table.name}: dropped {', '.join(map(str, report.dropped))}")
    data = {"snapshots": rows, "newest_sound": report.newest_sound, "snapshot_id": report.snapshot_id, "dropped": report.dropped}
    emit(data, Sentences(tuple(map(printable, lines))), json)


def _parsed(text: str) -> dict[str, object]:
    try:
        found = json_text.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidQuery(
            "not a key", where="--key", expected='JSON such as {"order_id": 7}', found=repr(text), cure="correct it"
        )
    return found


def _lines(name: str, report: RepairReport, action: str | None) -> list[str]:
    rows = report.rows.to_pylist()
    lines = [f"{row['row']}: {row['reason']}, columns {', '.join(row['columns'])}, snapshot {row['snapshot_id']}" for row in rows]
    if not rows:
        return [f"{name}: no row to repair"]
    if report.snapshot_id is None:
        return [*lines, f"{name}: {counted(len(rows), 'row')} to repair; add --action null or --action drop"]
    done = "dropped" if action == "drop" else "repaired: their failing columns are null"
    return [*lines, f"{name}: {counted(len(rows), 'row')} {done}, snapshot {report.snapshot_id}"]
