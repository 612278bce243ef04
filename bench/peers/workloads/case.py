"""What a workload asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from bench.peers.data import Stream


@dataclass(frozen=True)
class Sizes:
    """As asked for on the command line. The defaults are for a run of everything in 40 minutes. `source`: of the rows, instead
    of what a workload chooses."""

    rows: tuple[int, ...] = (200_000,)
    batch: int = 20_000
    batches: int = 8
    commits: int = 25
    rounds: int = 12
    source: str | None = None

    def of(self, source: str) -> str:
        """Whose rows a workload takes that would choose `source`."""
        return self.source or source


class Case(NamedTuple):
    """`params` go to the workload's `run`."""

    label: str
    stream: Stream
    params: Mapping[str, object] = MappingProxyType({})
