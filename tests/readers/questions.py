"""A question about a published table, in a form that every reader understands, and how it travels to the program of a reader."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROWS, COUNT, RANGES, SNAPSHOTS, REFS, FILES, ROW_IDS = "rows", "count", "ranges", "snapshots", "refs", "files", "row ids"


class Filter(NamedTuple):
    """`literal`: in SQL; null for IS NULL and IS NOT NULL, which `op` names."""

    column: str
    op: str
    literal: str | None = None

    def __str__(self) -> str:
        return " ".join([self.column, self.op, *([] if self.literal is None else [self.literal])])


class Question(NamedTuple):
    """`what`: ROWS and COUNT of a snapshot, or of a tag, by default of the newest one, that pass all of `where`; RANGES: the
    least and greatest value of each of `columns`, and how many are not null; SNAPSHOTS: their numbers; REFS: names and
    types; FILES: content, path and rows of those of the newest snapshot; ROW_IDS: how many rows, row ids and different row ids it
    has.
    `metadata`: the URI of the metadata file, `name`: below the warehouse."""

    table: str
    name: str
    metadata: str
    what: str = ROWS
    snapshot: int | None = None
    tag: str | None = None
    columns: tuple[str, ...] = ()
    where: tuple[Filter, ...] = ()

    def __str__(self) -> str:
        of = f" of snapshot {self.snapshot}" if self.snapshot is not None else f" of tag {self.tag}" if self.tag else ""
        where = " where " + " and ".join(map(str, self.where)) if self.where else ""
        return f"{self.what}{of}{where}"


def ranges(columns: Iterable[str], quote: str) -> str:
    """The columns of a SELECT for RANGES."""
    return ", ".join(f"{of}({quote}{name}{quote})" for name in columns for of in ("min", "max", "count"))


def write(path: Path, warehouse: str, questions: Iterable[Question]) -> None:
    path.write_text(json.dumps({"warehouse": warehouse, "questions": list(questions)}))


def read(path: Path) -> tuple[str, list[Question]]:
    content = json.loads(path.read_text())
    made = [Question(*values[:-1], where=tuple(Filter(*one) for one in values[-1])) for values in content["questions"]]
    return content["warehouse"], made
