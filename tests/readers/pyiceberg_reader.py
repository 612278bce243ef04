"""PyIceberg."""

from __future__ import annotations

import re
import sys

import pyarrow as pa
from answering import Answer, NotAsked, answer_all
from pyiceberg.table import StaticTable
from questions import COUNT, FILES, RANGES, REFS, ROW_IDS, SNAPSHOTS, Filter, Question


def condition(one: Filter) -> str:
    """The literals of PyIceberg have no type, and times are in ISO's form."""
    text = str(one).replace("<>", "!=")
    return re.sub(
        r"(TIMESTAMP|TIMESTAMP_NTZ|DATE) '(\S+) ?(.*)'", lambda found: f"'{found[2]}{found[3] and 'T'}{found[3]}'", text
    )


def opened(warehouse: str) -> Answer:
    def answer(question: Question) -> pa.Table:
        if question.what in (RANGES, ROW_IDS):
            raise NotAsked
        table = StaticTable.from_metadata(question.metadata)
        if question.what == SNAPSHOTS:
            return table.inspect.snapshots().select(["snapshot_id", "operation"])
        if question.what == REFS:
            return table.inspect.refs().select(["name", "type", "snapshot_id"])
        if question.what == FILES:
            return table.inspect.files().select(["content", "file_path", "record_count"])
        where = " AND ".join(map(condition, question.where))
        number = table.metadata.refs[question.tag].snapshot_id if question.tag else question.snapshot
        scan = table.scan(row_filter=where, snapshot_id=number) if where else table.scan(snapshot_id=number)
        return pa.table({"count": [scan.count()]}) if question.what == COUNT else scan.to_arrow()

    return answer


if __name__ == "__main__":
    answer_all(opened, sys.argv[1:])
