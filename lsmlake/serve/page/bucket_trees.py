"""The LSM trees of the buckets of one partition at one snapshot: sorted runs, newest first, as bars.

A bar is a file, or several neighbouring files of a run if the run has too many to be drawn one by one; sums of bars are always
sums of files. Key ranges are places between 0 and 1 on one axis per bucket, on which all least and greatest keys of the bucket
lie at equal distances, because keys of all types have an order but not all have a distance.

The bars say what the snapshot did: which files came, which only moved to another level, and how many went.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from lsmlake.api.table import Table
from lsmlake.format.data_files import DataFile
from lsmlake.format.manifest import files_of
from lsmlake.lsm.levels import Levels, SortedRun
from lsmlake.serve.page.shown_files import KnownFiles, ShownFiles, short_key

_BUCKETS_MAX = 24
_BARS_MAX, _BARS_LEAST = 720, 6
"""Bars of one answer, and of each run at least."""


def trees(
    known: KnownFiles, table: Table, snapshot: int | None = None, partition: str | None = None, first: int = 0
) -> dict[str, Any]:
    """The trees of the buckets of a partition; none if it has no files at the snapshot.

    Args:
        known: what is known of the files of tables.
        table: the table.
        snapshot: its number; None: the newest.
        partition: the partition, as text; None: the largest one.
        first: the place of the first bucket to return, in the order of their numbers.

    Raises:
        SnapshotNotFound: the snapshot is not retained.
    """
    files = known.at(table, snapshot)
    taken = files.version.snapshot
    answer: dict[str, Any] = {
        "snapshot": None if taken is None else taken.id,
        "kind": taken and taken.kind,
        "time_ms": taken and taken.time_ms,
        "writer": taken and taken.writer_id,
        "partitions": len(files.partitions),
        "append_only": files.version.schema.append_only,
    }
    if not files.partitions or (partition is not None and partition not in files.partitions):
        nothing = {"buckets": [], "bucket_count": 0, "first": 0, "most_bytes": 0, "change": _NONE}
        return {**answer, "partition": partition, **nothing}
    place = files.place_of(partition)
    shown = files.of_partition(place)
    numbers = np.unique(files.buckets[shown])
    some = numbers[first : first + _BUCKETS_MAX]
    earlier = known.before(files)
    old = _levels_before(earlier, files.partitions[place]) if earlier is not None else {}
    new = {files.names[row]: int(files.levels[row]) for row in shown.tolist()}
    gone = [name for name in old if name not in new]
    drawn = [_bucket(files, shown, int(number), old if earlier is not None else None) for number in some]
    runs = sum(len(one["runs"]) for one in drawn)
    most = max(_BARS_LEAST, _BARS_MAX // max(runs, 1))
    for one in drawn:
        one["runs"] = [{**run, "bars": _joined(run["bars"], most)} for run in one["runs"]]
    gone_by_bucket: dict[int, int] = {}
    for name in gone:
        gone_by_bucket[old[name][1]] = gone_by_bucket.get(old[name][1], 0) + 1
    for one in drawn:
        one["gone"] = gone_by_bucket.get(one["bucket"], 0)
    return {
        **answer,
        "partition": files.partitions[place],
        "buckets": drawn,
        "bucket_count": len(numbers),
        "first": first,
        "most_bytes": max((run["bytes"] for one in drawn for run in one["runs"]), default=0),
        "change": {
            "known": earlier is not None or files.version.number == 1,
            "came": sum(name not in old for name in new) if earlier is not None else len(new),
            "moved": sum(name in old and old[name][0] != level for name, level in new.items()),
            "went": len(gone),
        },
    }


_NONE = {"known": True, "came": 0, "moved": 0, "went": 0}


def _levels_before(earlier: ShownFiles, partition: str | None) -> dict[str, tuple[int, int]]:
    """The files of a partition: name -> level and bucket."""
    if partition not in earlier.partitions:
        return {}
    rows = earlier.of_partition(earlier.partitions.index(partition)).tolist()
    return {earlier.names[row]: (int(earlier.levels[row]), int(earlier.buckets[row])) for row in rows}


def _bucket(files: ShownFiles, shown: np.ndarray, number: int, old: Mapping[str, tuple[int, int]] | None) -> dict:
    rows = shown[files.buckets[shown] == number]
    listed = files_of(files.entries.take(rows), files.version.schema, statistics=False)
    dead = {files.names[row]: int(files.dead[row]) for row in rows.tolist() if files.dead[row]}
    levels = Levels.of((file for _, _, file in listed), dead)
    places = _places(levels)
    return {
        "bucket": number,
        "total": int(files.totals[rows].max()),
        "files": len(rows),
        "bytes": int(files.bytes[rows].sum()),
        "rows": levels.rows,
        "dead": levels.dead_rows,
        "runs": [_run(run, levels.dead, places, old) for run in levels.runs],
    }


def _places(levels: Levels) -> Mapping[tuple, float]:
    """Key -> its place from 0 to 1 on the axis of the bucket. Nulls are least."""
    keys = {key for file in levels.files for key in (file.min_key, file.max_key)}
    try:
        ordered = sorted(keys, key=lambda key: tuple((value is not None, value) for value in key))
    except TypeError:  # values without an order in Python
        return {}
    return {key: number / max(len(ordered) - 1, 1) for number, key in enumerate(ordered)}


def _run(
    run: SortedRun, dead: Mapping[str, int], places: Mapping[tuple, float], old: Mapping[str, tuple[int, int]] | None
) -> dict:
    return {
        "level": run.level,
        "files": len(run.files),
        "bytes": run.bytes,
        "rows": run.rows,
        "dead": run.dead_rows,
        "sequence": max((file.sequence or 0 for file in run.files), default=0),
        "bars": [_bar(file, dead.get(file.name, 0), places, old) for file in run.files],
    }


def _bar(file: DataFile, dead: int, places: Mapping[tuple, float], old: Mapping[str, tuple[int, int]] | None) -> dict:
    keyed = bool(file.min_key) and file.min_key in places
    before = None if old is None else old.get(file.name)
    return {
        "name": file.name,
        "files": 1,
        "bytes": file.bytes,
        "rows": file.rows,
        "dead": dead,
        "sequence": file.sequence,
        "created_ms": file.created_ms,
        "min": short_key(file.min_key) if file.min_key else None,
        "max": short_key(file.max_key) if file.max_key else None,
        "from": places[file.min_key] if keyed else None,
        "to": places[file.max_key] if keyed else None,
        "did": None if old is None else "came" if before is None else "moved" if before[0] != file.level else None,
    }


def _joined(bars: Sequence[dict], most: int) -> list[dict]:
    """At most `most` bars with the same sums: neighbours are joined."""
    return list(bars) if len(bars) <= most else list(_groups(bars, most))


def _groups(bars: Sequence[dict], most: int) -> Iterator[dict]:
    for start, end in pairwise(np.linspace(0, len(bars), most + 1).astype(int).tolist()):
        group = bars[start:end]
        did = {one["did"] for one in group}
        summed = {name: sum(one[name] for one in group) for name in ("files", "bytes", "rows", "dead")}
        ends = {"min": group[0]["min"], "max": group[-1]["max"], "from": group[0]["from"], "to": group[-1]["to"]}
        newest = max(one["sequence"] or 0 for one in group), max(one["created_ms"] for one in group)
        yield {
            **summed,
            **ends,
            "name": None,
            "sequence": newest[0],
            "created_ms": newest[1],
            "did": did.pop() if len(did) == 1 else None,
        }
