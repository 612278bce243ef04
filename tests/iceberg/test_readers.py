"""The readers of others (`tests/readers`) in short: those that are installed here, on few tables; and their judge, who must find
what is wrong."""

from __future__ import annotations

import sys

import pyarrow as pa
from readers.busy import watched
from readers.environments import READERS, program
from readers.judge import compared, judged
from readers.questions import ROWS, Question
from readers.tables import Asked

HERE = {name: [sys.executable, str(program(READERS[name]))] for name in ("PyIceberg", "Polars")}


def test_readers_answer_as_lsmlake_does_or_refuse(tmp_path):
    """One process per reader answers for all tables. PyIceberg, with which Polars plans too, lacks equality deletes."""
    for verdict in judged(tmp_path, HERE, ["vectors", "level 0 is hidden", "level 0"]):
        assert not (verdict.faults or verdict.wrong), verdict
        if verdict.table == "level 0":
            assert verdict.refused and all("equality deletes" in words for words in verdict.refused), verdict
        else:
            assert verdict.equal and not verdict.refused, verdict


def test_a_reader_beside_a_writer_that_expires_snapshots(tmp_path):
    reads = 6
    compacted, level0 = watched(tmp_path, {"PyIceberg": HERE["PyIceberg"]}, reads)
    assert compacted.reads >= reads and compacted.states > 1 and not compacted.wrong, compacted
    assert level0.reads >= reads and level0.refused and not level0.wrong, level0


def test_rows_that_are_missing_or_doubled_are_found():
    asked = Asked(Question("t", "d.db/t", "", ROWS), pa.table({"id": [1, 2], "v": [1.5, None]}))
    assert not compared(asked, pa.table({"v": [None, 1.5], "id": [2, 1]}))
    for wrong in (
        pa.table({"id": [1], "v": [1.5]}),
        pa.table({"id": [1, 1, 2], "v": [1.5, 1.5, None]}),
        pa.table({"id": [1, 2]}),
    ):
        assert compared(asked, wrong)
