"""The table against a dictionary: random histories of every verb, over every kind of key, partitioning and strategy.

`LSMLAKE_EXAMPLES=20 pytest tests/test_state_machine.py` tries harder.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from itertools import count

import pyarrow as pa
from effort import scaled
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from model import TableModel, expected
from strategies import (
    KEYS,
    PARTITIONS,
    ROW_KINDS,
    UTC,
    Shape,
    conditions,
    encoded_rows,
    lake_on,
    multiset,
    new_lake,
    rows_of,
    tiny_units,
    unreferenced,
)

from lsmlake.commit.publish import Identity, commit
from lsmlake.compact.bucket import compact_bucket
from lsmlake.format.files import Bucket, CommitMessage
from lsmlake.format.snapshot import COMPACT
from lsmlake.lsm.pick.strategy import as_needed, in_full
from lsmlake.write.bucket import split, write_bucket
from lsmlake.write.prepare import prepare

STRATEGIES = (
    {"compaction__strategy": "tiered", "compaction__tier_runs": 2},
    {"compaction__strategy": "tiered", "compaction__tier_runs": 3, "compaction__reclaim_dead_percent": 20},
    {"compaction__strategy": "tiered", "num_levels": 3},
    {"compaction__strategy": "tiered", "num_levels": 2, "compaction__tier_runs": 2},
    {"compaction__strategy": "universal", "num_sorted_run__compaction_trigger": 2},
    {"compaction__strategy": "universal"},
)
SIZES = (
    {"target_file_size": "1 kb", "file__block_size": "200 b"},
    {"target_file_size": "4 kb", "file__block_size": "1 kb"},
    {},
)
BATCHES = encoded_rows()
COMPACT_INLINE = st.sampled_from([None, None, True, False, False])


class TableMachine(RuleBasedStateMachine):
    @initialize(
        key=st.sampled_from(list(KEYS)),
        partition=st.sampled_from(["none", *PARTITIONS]),
        buckets=st.sampled_from([1, 1, 2, 5]),
        strategy=st.sampled_from(STRATEGIES),
        sizes=st.sampled_from(SIZES),
        merge_count=st.sampled_from([2, 3, 30]),
        write_only=st.sampled_from([False, False, True]),
        bucket_by_last=st.booleans(),
        sequence=st.booleans(),
    )
    def create(self, key, partition, buckets, strategy, sizes, merge_count, write_only, bucket_by_last, sequence):
        self.patches = tiny_units(ahead=True)
        self.patches.__enter__()
        self.shape = Shape.of(key, partition)
        self.lake = new_lake()
        options = {**strategy, **sizes, "bucket": buckets, "manifest__merge_min_count": merge_count, "write_only": write_only}
        if bucket_by_last:
            options["bucket_key"] = self.shape.key[-1]
        self.sequence = sequence
        if sequence:
            options["sequence__field"] = "stamp"
        self.table = self.shape.create(self.lake, **options)
        self.model = TableModel(self.shape, buckets, self.table.current.bucket_key, self.table.schema, sequence)
        self.stamps = count(1)
        self.commits = count(1)
        self.replays: list[tuple] = []
        self.held: list[tuple[list[CommitMessage], list, int]] = []

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _batch(self, codes, late: bool = False) -> list[tuple]:
        """Rows with stamps of their own. The stamps are the sequence, where the table has one: rows that are `late` have smaller
        stamps than those before them."""
        stamps = [-next(self.stamps) if late else next(self.stamps) for _ in codes]
        return [self.shape.row(key, value, stamp) for (key, value), stamp in zip(codes, stamps, strict=True)]

    def _arrow(self, rows) -> pa.Table:
        return self.shape.table(rows, self.table.schema)

    def _committed(self, number: int | None, late: Mapping[Bucket, int] = {}) -> None:
        """What follows every call that may have committed snapshot `number`."""
        assert number in (None, len(self.model.history) + 1)
        if number is not None:
            states = self.table.states()
            self.model.committed(number, {b: any(f.level == 0 for f in s.files) for b, s in states.items()}, late)

    # -- writing ------------------------------------------------------------------------------------------------------

    @rule(codes=BATCHES, compact=COMPACT_INLINE, late=st.booleans())
    def upsert(self, codes, compact, late):
        rows = self._batch(codes, late)
        snapshot = self.table.upsert(self._arrow(rows), compact=compact)
        self.model.apply(rows, ["+I"] * len(rows))
        self._committed(snapshot.id)

    @rule(codes=BATCHES, compact=COMPACT_INLINE)
    def upsert_with_kinds(self, codes, compact):
        rows = self._batch(codes)
        kinds = [ROW_KINDS[value % 4] for _, value in codes]
        data = self._arrow(rows).append_column("op", pa.array(kinds))
        snapshot = self.table.upsert(data, row_kind="op", compact=compact)
        self.model.apply(rows, kinds)
        self._committed(snapshot.id)

    @rule(codes=BATCHES, compact=COMPACT_INLINE, erase=st.booleans(), late=st.booleans())
    def delete_keys(self, codes, compact, erase, late):
        rows = self._batch(codes, late)
        sequence = [] if erase or not self.sequence else ["stamp"]
        keys = self._arrow(rows).select([*self.shape.primary_key, *sequence])
        snapshot = self.table.delete_keys(keys, ignore_sequence=erase, compact=compact)
        self.model.apply(rows, ["erase" if erase else "-D"] * len(rows))
        self._committed(snapshot.id)

    @rule(codes=BATCHES, writer=st.sampled_from(["w1", "w2"]), compact=COMPACT_INLINE)
    def upsert_once(self, codes, writer, compact):
        number, rows = next(self.commits), self._batch(codes)
        snapshot = self.table.upsert(self._arrow(rows), writer_id=writer, commit_id=number, compact=compact)
        self.model.apply(rows, ["+I"] * len(rows))
        self._committed(snapshot.id)
        self.replays.append((writer, number, self._arrow(rows), snapshot))

    @precondition(lambda self: self.replays)
    @rule(data=st.data())
    def replay(self, data):
        writer, number, rows, snapshot = data.draw(st.sampled_from(self.replays))
        assert self.table.upsert(rows, writer_id=writer, commit_id=number) == snapshot

    @rule()
    def write_nothing(self):
        assert self.table.upsert(self._arrow([])) is None

    # -- compaction ---------------------------------------------------------------------------------------------------

    @rule(full=st.booleans())
    def compact(self, full):
        report = self.table.compact(full=full)
        self._committed(report.snapshot_id)
        if full:
            for state in self.table.states().values():
                assert len({file.level for file in state.files}) == 1
                assert not state.vectors
        assert all(file.level > 0 for state in self.table.states().values() for file in state.files)
        assert self.table.compact(full=full).snapshot_id is None, "a compacted table is compacted again"

    @rule(number=st.integers(0, 4))
    def compact_one_bucket(self, number):
        number %= self.model.buckets
        report = self.table.compact(buckets=[number])
        self._committed(report.snapshot_id)

    # -- what others began and finish late ----------------------------------------------------------------------------

    @precondition(lambda self: len(self.held) < 2)
    @rule(codes=BATCHES, compact=st.booleans())
    def begin_upsert(self, codes, compact):
        rows, table = self._batch(codes), self.table
        choose = as_needed(table.current.parsed_options.compaction, 0) if compact else None
        states = table.states()
        parts = split(prepare(self._arrow(rows), table.current)[0], table.current, self.model.buckets)
        messages = [write_bucket(table.meta, table.current, bucket, [part], states.get(bucket), choose) for bucket, part in parts]
        self.held.append((messages, rows, len(self.model.history)))

    @precondition(lambda self: len(self.held) < 2 and self.model.history)
    @rule(full=st.booleans())
    def begin_compaction(self, full):
        table = self.table
        choose = in_full(table.current, 0) if full else as_needed(table.current.parsed_options.compaction, 0)
        messages = [compact_bucket(table.meta, table.current, state, choose) for state in table.states().values()]
        self.held.append(([message for message in messages if message], [], len(self.model.history)))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def finish(self, data):
        self._finish(data.draw(st.integers(0, len(self.held) - 1)))

    def _finish(self, which: int) -> None:
        messages, rows, base = self.held.pop(which)
        outcome = commit(self.table.meta, self.table.current, messages, Identity("late"))
        event(f"late {'upsert' if rows else 'compaction'}: {self._fate(messages, outcome.edits)}")
        self.model.apply(rows, ["+I"] * len(rows))
        late = {} if rows else {change.bucket: base for change in outcome.edits}
        self._committed(outcome.snapshot and outcome.snapshot.id, late)

    def _fate(self, messages, changes) -> str:
        moved = sum(change.base is not None for change in changes)
        wanted = sum(message.compact is not None for message in messages)
        return "nothing to compact" if not wanted else "stands" if moved == wanted else "overtaken"

    # -- looking ------------------------------------------------------------------------------------------------------

    @rule(data=st.data(), mode=st.sampled_from(["fresh", "raw"]))
    def scan(self, data, mode):
        where = data.draw(conditions(self.shape))
        columns = data.draw(st.none() | st.lists(st.sampled_from(self.shape.names), min_size=1, unique=True))
        rows = self.model.rows.values() if mode == "fresh" else self.model.raw_rows()
        scan = self.table.scan(where=where.sql, columns=columns, mode=mode)
        assert multiset(rows_of(scan.to_arrow())) == expected(rows, self.shape.names, where, columns)
        assert scan.count() == len(expected(rows, self.shape.names, where))

    @precondition(lambda self: self.model.history)
    @rule(data=st.data())
    def travel(self, data):
        number = data.draw(st.sampled_from(sorted(self.model.history)))
        rows = expected(self.model.history[number].values(), self.shape.names)
        assert multiset(rows_of(self.table.scan(snapshot=number).to_arrow())) == rows
        moment = dt.datetime.fromtimestamp(0, UTC) + dt.timedelta(milliseconds=self.table.meta.snapshot(number).time_ms)
        assert multiset(rows_of(self.table.scan(timestamp=moment).to_arrow())) == rows

    @rule(number=st.integers(0, 10**6))
    def reopen(self, number):
        clock = self.lake.env.clock
        self.lake = lake_on(self.lake.env.storage, prefix=f"r{number}-{next(self.commits)}-")
        self.lake.env.clock.now_ms = clock.now_ms
        self.table = self.lake.table("d.t")

    @invariant()
    def the_table_is_the_model(self):
        if not hasattr(self, "table"):
            return
        scan = self.table.scan()
        assert multiset(rows_of(scan.to_arrow())) == expected(self.model.rows.values(), self.shape.names)
        assert scan.count() == len(self.model.rows)

    @invariant()
    def raw_is_what_has_left_level_0(self):
        if not hasattr(self, "table"):
            return
        scan = self.table.scan(mode="raw")
        assert multiset(rows_of(scan.to_arrow())) == expected(self.model.raw_rows(), self.shape.names)
        assert scan.count() == len(self.model.raw_rows())

    def teardown(self):
        if not hasattr(self, "table"):
            return
        while self.held:
            self._finish(0)
        self.the_table_is_the_model()
        self.raw_is_what_has_left_level_0()
        assert self.table.verify() == []
        assert unreferenced(self.table) == []
        for number, rows in self.model.history.items():
            found = self.table.scan(snapshot=number).to_arrow()
            assert multiset(rows_of(found)) == expected(rows.values(), self.shape.names)
            snapshot = self.table.meta.snapshot(number)
            assert (snapshot.kind == COMPACT) == (snapshot.delta_rows == 0)
        self.patches.__exit__(None, None, None)


TestTable = TableMachine.TestCase
TestTable.settings = settings(
    max_examples=scaled(12),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
