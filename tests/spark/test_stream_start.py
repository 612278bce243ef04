"""A stream on a busy Connect server: the Python process of its function may start too late, and the start is tried again."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from lsmlake.spark.stream import started

LATE = "(org.apache.spark.SparkException) Python worker failed to connect back."


class Writer:
    """Fails with each of `errors`, then starts a query."""

    def __init__(self, *errors: str) -> None:
        self.errors, self.starts = list(errors), 0

    def start(self) -> str:
        self.starts += 1
        if self.errors:
            raise PySparkException(self.errors.pop(0))
        return "query"


def test_a_worker_that_is_late_is_waited_for_again(caplog):
    writer = Writer(LATE, LATE)
    assert started(writer, "d.t") == "query" and writer.starts == 3
    assert caplog.messages == ["d.t: the Python process of the stream did not start in time; trying again"] * 2


def test_a_worker_that_is_always_late_is_an_error():
    writer = Writer(*[LATE] * 9)
    with pytest.raises(PySparkException, match="connect back"):
        started(writer, "d.t")
    assert writer.starts == 3


def test_another_error_is_raised_at_once():
    writer = Writer("the checkpoint belongs to another query")
    with pytest.raises(PySparkException, match="checkpoint"):
        started(writer, "d.t")
    assert writer.starts == 1
