"""The result never depends on how rows were batched, when compaction ran, or on concurrent writers: every merge rule, table mode
and changelog producer under random histories (`history`).

`LSMLAKE_EXAMPLES=20 pytest tests/histories/test_histories.py` runs more of them.
"""

from __future__ import annotations

import pytest
from effort import examples
from history import SIZES, Plan, Player, Step, World, histories, play, played
from hypothesis import given
from hypothesis import strategies as st
from lasting import LastingPlayer, lasting_histories
from merge_setups import SETUPS

EXAMPLES = 6


@pytest.mark.parametrize("rule", SETUPS)
def test_a_table_is_its_model_after_every_step(rule):
    @examples(EXAMPLES)
    @given(st.data())
    def check(data):
        play(data.draw(histories(rule)), data.draw)

    check()


@pytest.mark.parametrize("rule", SETUPS)
def test_a_table_whose_rows_are_replaced_is_its_model(rule):
    @examples(EXAMPLES // 4)
    @given(st.data())
    def check(data):
        play(data.draw(histories(rule, replaces=True)), data.draw)

    check()


@examples(2 * EXAMPLES)
@given(st.data())
def test_a_table_that_lives_long_is_its_model(data):
    """With tags, branches, rollbacks, expiry and orphans among the steps: what is retained has its rows, no other file stays."""
    play(data.draw(lasting_histories(data.draw(st.sampled_from(list(SETUPS))))), data.draw, LastingPlayer)


@pytest.mark.parametrize("rule", ["deduplicate, values of every sort", "partial-update, values of every sort"])
def test_a_run_with_deletes_in_some_of_its_files_is_merged(rule):
    """A plan that failed: without vectors the run keeps the delete of one key, and its other files have no row kinds."""
    world = World(rule, "merge on read", "lookup", buckets=1, sizes=SIZES[0], merge_count=2, loaded=True)
    played(Plan(world, (Step("upsert", bytes(3), None, 0), Step("erase", b"\1\0\0", None, 0))), Player.check)


def test_a_compaction_of_late_rows_only_leaves_no_changelog_file():
    """A plan that failed: the compaction changes no file, but its changelog had the row that stays, as an update."""
    world = World("deduplicate by sequence", "vectors, lazy", "lookup", buckets=1)
    player = played(Plan(world, (Step("upsert", b"i\x0c2", None, 0), Step("upsert", bytes(3), None, 0))), Player.check)
    assert player.naive.unreferenced() == []


def test_a_bucket_that_a_split_made_too_large_is_split_again():
    """A plan that failed: of 60 keys in 8 buckets one got 11, which is more than the target."""
    world = World("aggregation", "vectors", "full-compaction", buckets="auto", sizes=SIZES[0], keys=60, loaded=True)
    late = Step("compact", bytes(3), None, 0)
    player = played(Plan(world, (Step("upsert", bytes(3), None, 0, (late,)), Step("upsert", bytes(3), None, 0))), Player.check)
    assert {state.total_buckets for state in player.table.version.states().values()} == {8, 16}
