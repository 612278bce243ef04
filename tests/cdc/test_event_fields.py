"""Names of fields that are told without parsing are those that a parser reads."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest

from lsmlake.cdc.event_fields import known_names
from lsmlake.cdc.event_queries import BETWEEN

VALUES = [None, True, -1.5e3, "", 'a", "b": {', "\\", '\\"}', "é[", [], {}, [1, "]"], {"a": [{"b": "}"}]}, [[[1]]]]
ROWS = [{name: value} for name in ("a", 'a"', "é", "a.b", "") for value in VALUES]
ROWS += [{"a": one, "b": other, "after": None} for one in VALUES for other in (1, "x", [{}])]
PATHS = {"": [], "after": ["after"], "payload.after": ["payload", "after"]}


def names_of(text: str, path: Sequence[str], many: bool) -> str | None:
    """By a parser; None: there is no row."""
    found = json.loads(text)
    for name in path:
        found = found.get(name)
    rows = found if many else [found]
    if not isinstance(rows, list) or not all(isinstance(one, dict) for one in rows) or len({tuple(one) for one in rows}) != 1:
        return None
    return BETWEEN.join(rows[0])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("many", [False, True])
def test_known_names_are_those_of_a_parser(path: str, many: bool):
    events, known = [], 0
    for number, (row, other) in enumerate(zip(ROWS, [*ROWS[1:], {}], strict=True)):
        event: object = [row, other] if many else row
        for name in reversed(PATHS[path]):
            event = {"before": VALUES[number % len(VALUES)], name: event, "op": "c"}
        events.append(json.dumps(event, ensure_ascii=bool(number % 2)))
    for start in range(0, len(events), 3):
        found = known_names(pa.array([*events[start:], None]), PATHS[path], many=many).to_pylist()
        assert found.pop() is None
        known += sum(names is not None for names in found)
        assert all(names in (None, names_of(text, PATHS[path], many)) for text, names in zip(events[start:], found, strict=True))
    assert known > len(events) / 2


@pytest.mark.parametrize("many", [False, True])
def test_events_with_the_fields_of_the_first_are_known(many: bool):
    def event(**row: object) -> str:
        return json.dumps({"type": "c", "old": {"a": [1]}, "data": [row, row] if many else row, "more": 1})

    events = [event(a=n, b='{"c": 5, "b": "') for n in range(5)]
    events += [event(b=1, a="x"), event(a=1, b=2, c=3), event(a=1), event(a=1, a2={"a": 1}), '{"type":"c"}', "{"]
    found = known_names(pa.array(events), ["data"], many=many).to_pylist()
    assert found[:5] == [BETWEEN.join("ab")] * 5
    assert not set(found[6:]) & {found[0]} and found[-2:] == [None, None]


@pytest.mark.parametrize("text", ['{"after":{"a":1,"a":2}}', '{"after":{"a":1,"\\u0061":2}}'])
def test_a_name_that_is_there_twice_is_told_twice(text: str):
    assert known_names(pa.array([text, '{"after":{"a":1}}']), ["after"], many=False).to_pylist()[0] == BETWEEN.join("aa")


def test_text_behind_a_row_makes_its_names_unknown():
    assert known_names(pa.array(['{"a":1}', '{"a":2} x', '{"a":3}']), [], many=False).to_pylist() == ["a", None, "a"]
