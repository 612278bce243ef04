"""The programs that run side by side: see `beside`.

    roles.py ROLE FOLDER MASTER PYTHON

Each runs until the file FOLDER/stop exists, is killed and started again at any moment, and appends what it did to
FOLDER/logs/ROLE: JSON objects, one per line. A "fault" is what must not happen.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timedelta, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import pyarrow as pa

import lsmlake
from cluster.machines import driver_session
from cluster.plan import STREAM, UPSERTS, Batch, Rows, digest
from lsmlake.errors import CommitConflict, SnapshotNotFound

RETAINED, ORPHAN_SECONDS = 30, 120


class Role:
    """One program. `spark`: its session, None for a program without Spark."""

    def __init__(self, name: str, folder: Path, spark) -> None:
        self.name, self.folder, self.spark = name, folder, spark
        self.table = lsmlake.connect(folder / "warehouse", spark=spark).table("d.t")
        self._log = folder / "logs" / name

    def tell(self, **what: object) -> None:
        with self._log.open("a") as log:
            log.write(json.dumps(what) + "\n")

    def told(self, what: str) -> list:
        """What this program told earlier, perhaps before it was killed. Its last line may be cut off."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [json.loads(line)[what] for line in lines if line.endswith("}") and f'"{what}"' in line]

    def stopping(self) -> bool:
        return (self.folder / "stop").exists()

    def again_and_again(self, step: Callable[[], object], pause_s: float) -> None:
        while not self.stopping():
            try:
                step()
            except Exception:
                self.tell(fault=traceback.format_exc())
            time.sleep(pause_s)


def stream(role: Role) -> None:
    """Takes the files of the folder `in`, one per micro-batch, as they come."""
    source = role.spark.readStream.schema("id BIGINT, v BIGINT").option("maxFilesPerTrigger", 1)
    frame, checkpoint = source.parquet(str(role.folder / "in")), str(role.folder / "checkpoint")

    def step() -> None:
        query = role.table.write_stream(frame, checkpoint=checkpoint)
        while not role.stopping() and query.isActive:
            time.sleep(0.2)
        if failure := query.exception():
            raise failure
        query.stop()

    role.again_and_again(step, 0)
    role.table.write_stream(frame, checkpoint=checkpoint, trigger={"availableNow": True}).awaitTermination()


def upserts(role: Role) -> None:
    """Upserts and deletions, each with its number. A program that was killed begins with the number that may have been lost."""
    begun = role.told("begun")
    number = begun[-1] if begun else 0

    def step() -> None:
        nonlocal number
        batch = Batch(UPSERTS, number)
        role.tell(begun=number)
        write = role.table.delete_keys if batch.deletes else role.table.upsert
        write(batch.frame(role.spark), writer_id=UPSERTS, commit_id=number)
        number += 1

    role.again_and_again(step, 0.2)


def compactor(role: Role) -> None:
    turn = 0

    def step() -> None:
        nonlocal turn
        turn += 1
        try:
            report = role.table.compact(full=turn % 4 == 0)
            role.tell(compacted=report.buckets)
        except CommitConflict:  # others overtook it every time: nothing is lost
            role.tell(overtaken=1)

    role.again_and_again(step, 1)


def expirer(role: Role) -> None:
    def step() -> None:
        role.tell(expired=role.table.expire_snapshots(retain_max=RETAINED, retain_min=RETAINED).snapshots)
        before = datetime.now(timezone.utc) - timedelta(seconds=ORPHAN_SECONDS)
        role.tell(orphans=role.table.remove_orphan_files(older_than=before).files)

    role.again_and_again(step, 2)


def reader(role: Role) -> None:
    """Reads snapshots by Spark and in this process, and checks that the changes between two lead from one to the other."""
    last: tuple[int, Rows] | None = None

    def step() -> None:
        nonlocal last
        number = max(role.table.snapshots()["snapshot_id"].to_pylist(), default=0)
        if number == (last[0] if last else 0):
            return
        try:
            by_spark = rows_of(role.table.scan(snapshot=number).to_spark().toArrow())
            here = rows_of(role.table.scan(snapshot=number).to_arrow())
            changes = role.table.changes(last[0], number).to_arrow() if last else None
        except SnapshotNotFound:
            role.tell(late=number)  # it has expired
            last = None
            return
        if by_spark != here:
            role.tell(fault=f"snapshot {number}: Spark reads {digest(by_spark)}, this process {digest(here)}")
        if last and changed(last[1], changes) != here:
            role.tell(fault=f"the changes from {last[0]} to {number} do not lead there")
        role.tell(read=[number, digest(here)])
        last = number, here

    role.again_and_again(step, 0.2)


def rows_of(table: pa.Table) -> dict[int, int]:
    found = dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))
    assert len(found) == table.num_rows, "a key is there twice"
    return found


def changed(rows: Rows, changes: pa.Table) -> dict[int, int]:
    found = dict(rows)
    for change in changes.to_pylist():
        if change["_row_kind"] in ("+I", "+U"):
            found[change["id"]] = change["v"]
        else:
            assert found.pop(change["id"]) == change["v"]
    return found


ON_SPARK = {STREAM: stream, UPSERTS: upserts, "compactor": compactor, "reader": reader}
ROLES = {**ON_SPARK, "expirer": expirer}


def main(name: str, folder: Path, master: str, python: str) -> None:
    with driver_session(master, folder, python, 1) if name in ON_SPARK else nullcontext() as spark:
        if spark:
            lsmlake.ship(spark)
        ROLES[name](Role(name, folder, spark))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
