"""The readers of others (`tests/readers`) in short: those that are installed here, on few tables; and their judge, who must find
what is wrong."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest
from readers.busy import watched
from readers.environments import READERS, program
from readers.judge import compared, judged
from readers.questions import ROWS, Question
from readers.tables import Asked

HERE = {name: [sys.executable, str(program(READERS[name]))] for name in ("PyIceberg", "Polars")}


@pytest.mark.parametrize("table", ["vectors", "level 0 is hidden"])
def test_readers_answer_as_lsmlake_does(tmp_path, table):
    for verdict in judged(tmp_path, HERE, [table]):
        assert verdict.equal and not (verdict.refused or verdict.faults or verdict.wrong), verdict


def test_what_a_reader_refuses_is_told(tmp_path):
    (verdict,) = judged(tmp_path, {"PyIceberg": HERE["PyIceberg"]}, ["level 0"])
    assert verdict.refused and not verdict.wrong
    assert all("equality deletes" in words for words in verdict.refused)


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
