"""A third of the keys deleted, batch after batch, with a read after each, then all reads.

The read in between is compared with plain Parquet of the load, every row of it: what the dead rows cost is what rises over 1,
and a table that gets rid of them falls below. Both take turns, so that both are as warm."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench.peers import read
from bench.peers.base import Peer, Plain
from bench.peers.data import Data, Stream
from bench.peers.workloads.case import Case, Sizes
from bench.peers.workloads.steps import Measures, checked, clock, filled, growth, note, rate, reads
from bench.timing import take_turns

DELETES, SHARE = 10, 0.3
DEAD, OVER_DEAD = "share deleted", "grouped /plain load"
_ROUNDS = 2


def cases(sizes: Sizes) -> list[Case]:
    return [
        Case(f"{rows:,} rows", Stream(rows, 0, 0, source=sizes.of("lineitem"), deletes=DELETES, deleted=SHARE))
        for rows in sizes.rows[:1]
    ]


def run(peer: Peer, data: Data, params: Mapping[str, object]) -> Measures:
    known = data.facts["known"]
    keys = known - data.facts["expected"][0]
    grouped = next(one for one in data.reads if one.name == "grouped")
    filled(peer, data, deletes=True)
    plain = peer.plain(data.load)
    spent, slower = [], [_ratio(peer, plain, grouped, warm=1)]
    for path in data.deletes:
        note(path.name)
        spent.append(clock(partial(peer.delete, path)))
        slower.append(_ratio(peer, plain, grouped))
    checked(peer, data)
    measures: Measures = {"keys/s": rate(keys, spent), "last/first": growth(spent)}
    measures |= {DEAD: [keys / known * number / len(spent) for number in range(len(slower))], OVER_DEAD: slower}
    return measures | reads(peer, data, data.reads)


def _ratio(peer: Peer, plain: Plain, query: read.Read, warm: int = 0) -> float:
    """Of the table to plain Parquet, best of a few rounds."""
    sides = {"table": lambda _: partial(peer.query, query), "plain": lambda _: partial(plain.query, query)}
    spent = take_turns(sides, _ROUNDS, warm)
    return spent["table"].seconds / spent["plain"].seconds
