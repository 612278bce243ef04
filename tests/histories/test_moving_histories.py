"""Tables whose primary key lacks the partition column: a key lives once, in the partition that the rules of its merge engine say,
under random histories (`history`)."""

from __future__ import annotations

import pytest
from effort import examples
from history import can_move, histories, play
from hypothesis import given
from hypothesis import strategies as st
from merge_setups import SETUPS

EXAMPLES = 8


@pytest.mark.parametrize("rule", [name for name in SETUPS if can_move(name)])
def test_a_table_with_moving_keys_is_its_model_after_every_step(rule):
    @examples(EXAMPLES)
    @given(st.data())
    def check(data):
        play(data.draw(histories(rule, moves=True)), data.draw)

    check()


@examples(EXAMPLES)
@given(st.data())
def test_a_table_with_moving_keys_whose_rows_are_replaced_is_its_model(data):
    play(data.draw(histories("deduplicate", moves=True, replaces=True, alters=False)), data.draw)
