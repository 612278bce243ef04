"""Merges of dlt by merge key into tables whose rows have a sequence, and such loads when a job fails or the process is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from dlt.pipeline.exceptions import PipelineStepFailed
from dlt_support import DAYS, DAYS_LATER, both, commits, days, lake_of, pipeline, rows
from effort import SCALE

from lsmlake.api.table import Table

LOADED = [(2, "a", 5), (3, "b", 5), (4, None, 5), (5, "a", 1)]
"""The rows of `days` after `DAYS` and `DAYS_LATER`: the merge key removes row 1, the sequence keeps row 2."""


def test_a_merge_key_removes_rows_whatever_their_sequence(tmp_path: Path):
    pipeline(tmp_path).run(days(DAYS))
    pipeline(tmp_path).run(days(DAYS_LATER))
    assert rows(tmp_path, "days", "k", "day", "v") == LOADED
    pipeline(tmp_path).run(days([(1, "a", 0)]))  # older than the row that was removed
    assert rows(tmp_path, "days", "k", "day", "v") == [(3, "b", 5), (4, None, 5)]


def test_a_row_with_a_higher_sequence_comes_back_under_its_merge_key(tmp_path: Path):
    for found in (DAYS, DAYS_LATER, [(1, "b", 6)]):
        pipeline(tmp_path).run(days(found))
    assert rows(tmp_path, "days", "k", "day", "v") == [(1, "b", 6), (2, "a", 5), (4, None, 5), (5, "a", 1)]
    assert not lake_of(tmp_path).table("sales.days").verify()


@pytest.mark.parametrize("options", [{"sequence.field": "v"}, {"merge-engine": "first-row"}])
def test_nested_rows_are_refused_where_a_stored_row_may_stay(options: dict[str, str], tmp_path: Path):
    """Otherwise the nested rows of the load would replace those of a root row that stays."""
    with pytest.raises(PipelineStepFailed, match="merged by other rules"):
        pipeline(tmp_path).run(days(DAYS, items=True, options=options))
    assert rows(tmp_path, "days") == rows(tmp_path, "days__items") == []


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("broken", range(3))
def test_jobs_that_are_tried_again_remove_the_rows_of_a_merge_key_once(broken: int, when: str, tmp_path: Path):
    """Each commit fails once, before or after it takes place: of the nested rows, of their root rows, of another table."""
    pipeline(tmp_path).run(both(DAYS))
    calls, write = iter(range(100)), Table.upsert

    def failing(self: Table, *args: object, **words: object):
        number = next(calls)
        if number == broken and when == "before":
            raise OSError("the machine is tired")
        done = write(self, *args, **words)
        if number == broken:
            raise OSError("the machine is tired")
        return done

    with patch.object(Table, "upsert", failing):
        try:
            pipeline(tmp_path).run(both(DAYS_LATER))
        except PipelineStepFailed as failed:
            assert "the machine is tired" in str(failed)
    pipeline(tmp_path).load()
    assert next(calls) > broken
    assert_loaded_once(tmp_path)


KILLED = """
import os, sys
from pathlib import Path
from dlt_support import DAYS_LATER, both, pipeline
from lsmlake.api.table import Table

calls, at, write = iter(range(100)), int(sys.argv[2]), Table.upsert

def dying(*args, **words):
    done = write(*args, **words)
    if next(calls) == at:
        os._exit(9)
    return done

Table.upsert = dying
pipeline(Path(sys.argv[1])).run(both(DAYS_LATER))
"""


@pytest.mark.parametrize("at", range(3) if SCALE >= 1 else [1])
def test_a_load_by_merge_key_that_is_killed_between_its_jobs_goes_on(at: int, tmp_path: Path):
    pipeline(tmp_path).run(both(DAYS))
    tests = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{tests.parent}{os.pathsep}{tests / 'support'}", "LOAD__WORKERS": "1"}
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(at)], env=environment, check=False)
    assert done.returncode == 9
    pipeline(tmp_path).load()
    assert_loaded_once(tmp_path)


def assert_loaded_once(folder: Path) -> None:
    assert rows(folder, "days", "k", "day", "v") == LOADED
    assert rows(folder, "orders", "k", "day", "v") == [(2, "a", 3), (3, "b", 5), (4, None, 5), (5, "a", 1)]
    assert rows(folder, "orders__items", "n") == [(1,), (3,), (5,), (5,)]
    for table in ("days", "orders", "orders__items", "_dlt_loads"):
        writers = commits(folder, table)
        assert len(writers) == len(set(writers)) == 2 and not lake_of(folder).table(f"sales.{table}").verify()
