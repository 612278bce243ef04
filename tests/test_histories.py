"""The result never depends on how rows were batched, when compaction ran or who wrote meanwhile: every merge rule, table mode and
changelog producer under random histories (`history`).

`LSMLAKE_EXAMPLES=20 pytest tests/test_histories.py` tries harder.
"""

from __future__ import annotations

import pytest
from effort import examples
from history import histories, play
from hypothesis import given
from hypothesis import strategies as st
from merge_setups import SETUPS

EXAMPLES = 8


@pytest.mark.parametrize("rule", SETUPS)
def test_a_table_is_its_model_after_every_step(rule):
    @examples(EXAMPLES)
    @given(st.data())
    def check(data):
        play(data.draw(histories(rule)), data.draw)

    check()
