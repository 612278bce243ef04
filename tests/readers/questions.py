"""A question about a published table, in a form that every reader understands, and how it travels to the program of a reader."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROWS, COUNT, SNAPSHOTS, REFS, FILES = "rows", "count", "snapshots", "refs", "files"


class Filter(NamedTuple):
    """`literal`: in SQL; null for IS NULL and IS NOT NULL, which `op` names."""

    column: str
    op: str
    literal: str | None = None

    def __str__(self) -> str:
        return " ".join([self.column, self.op, *([] if self.literal is None else [self.literal])])


class Question(NamedTuple):
    """`what`: ROWS and COUNT of a snapshot, or of a tag, by default of the newest one, that pass all of `where`; SNAPSHOTS: their
    numbers and operations; REFS: names, types and snapshots; FILES: of the newest snapshot, the content, path, rows of each.
    `metadata`: the URI of the metadata file, `name`: below the warehouse."""

    table: str
    name: str
    metadata: str
    what: str = ROWS
    snapshot: int | None = None
    tag: str | None = None
    where: tuple[Filter, ...] = ()

    def __str__(self) -> str:
        of = f" of snapshot {self.snapshot}" if self.snapshot is not None else f" of tag {self.tag}" if self.tag else ""
        where = " where " + " and ".join(map(str, self.where)) if self.where else ""
        return f"{self.what}{of}{where}"


def write(path: Path, warehouse: str, questions: Iterable[Question]) -> None:
    path.write_text(json.dumps({"warehouse": warehouse, "questions": list(questions)}))


def read(path: Path) -> tuple[str, list[Question]]:
    content = json.loads(path.read_text())
    made = [Question(*values[:-1], where=tuple(Filter(*one) for one in values[-1])) for values in content["questions"]]
    return content["warehouse"], made
