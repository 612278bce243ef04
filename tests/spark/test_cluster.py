"""A real cluster, of which executors, attempts of tasks, shuffle files and the driver are lost: see the package `cluster`.

The long form, with a driver killed at each step of a micro-batch and with drivers side by side: `python -m tests.cluster`.
"""

from __future__ import annotations

import pytest
from cluster.driver import JOBS
from cluster.machines import Cluster
from cluster.run import drive
from spark_support import python_without_lsmlake

pytestmark = [pytest.mark.spark, pytest.mark.in_turn, pytest.mark.timeout(900)]  # one test waits for all jobs
DEATH = "task written"
LEFT_OUT = ("killed_in_a_write", "killed_in_a_compaction")
"""The long form has them; in the short one the write of the micro-batch stands for them."""
SHORT = [*(job for job in JOBS if job not in LEFT_OUT), DEATH]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of all jobs, in two drivers: the first is killed in a micro-batch, the second goes on."""
    folder = tmp_path_factory.mktemp("cluster")
    python = python_without_lsmlake(folder / "python")
    with Cluster(folder / "machines") as cluster:
        first = drive(cluster, folder, python, *SHORT)
        return first | drive(cluster, folder, python, "resumed")


@pytest.mark.parametrize("job", [*SHORT, "resumed"])
def test_what_a_cluster_loses_neither_loses_nor_repeats_rows(outcomes, job):
    assert outcomes[job] == ""
