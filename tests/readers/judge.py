"""Lets readers answer and compares their answers with lsmlake's."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.feather as feather
from spark_support import rows

import lsmlake
from readers.environments import Commands
from readers.questions import FILES, REFS, ROWS, SNAPSHOTS, write
from readers.tables import BUILDS, DATABASE, Asked, asked_of

_SHOWN, _MESSAGE = 3, 160


class Fault(NamedTuple):
    """A fault of a reader, not of the metadata. `explains`: whether it is the reason why an answer differs."""

    reader: str
    words: str
    explains: Callable[[Asked, pa.Table], bool]


def _nulls_are_empty(asked: Asked, answer: pa.Table) -> bool:
    def emptied(table: pa.Table) -> list[tuple]:
        lists = [place for place, type_ in enumerate(table.schema.types) if pa.types.is_nested(type_)]
        return sorted(
            (tuple(value or () if place in lists else value for place, value in enumerate(row)) for row in rows(table)), key=repr
        )

    return asked.question.what == ROWS and emptied(answer.select(asked.answer.column_names)) == emptied(asked.answer)


def _default_of_time(asked: Asked, answer: pa.Table) -> bool:
    return asked.question.table == "evolved columns" and bool(_filtered(asked) & {"day", "at", "local"})


def _nan(asked: Asked, answer: pa.Table) -> bool:
    return ("f" if asked.question.table.startswith("adopted") else "nan") in _filtered(asked)


def _filtered(asked: Asked) -> set[str]:
    return {one.column for one in asked.question.where}


FAULTS = (
    Fault("PyIceberg", "null lists and maps become empty ones", _nulls_are_empty),
    Fault("PyIceberg", "NaN is not greater than other numbers", _nan),
    Fault("Trino", "NaN is not greater than other numbers", _nan),
    Fault("PyIceberg", "a filter by a time misses rows that have it by default", _default_of_time),
)


class Verdict(NamedTuple):
    """What a reader made of the questions about a table. `refused`: message -> how often; `faults`: the same, of the reader's own
    ones; `wrong`: what differs."""

    reader: str
    table: str
    equal: int
    refused: Counter[str]
    faults: Counter[str]
    wrong: list[str]


def judged(folder: Path, readers: Commands, tables: Sequence[str]) -> list[Verdict]:
    """Build the tables in the folder and let the readers answer all questions about them."""
    warehouse = folder / "warehouse"
    lake = lsmlake.connect(str(warehouse))
    lake.create_database(DATABASE)
    asked = []
    for number, title in enumerate(tables):
        asked += asked_of(BUILDS[title](lake, f"t{number}"), title)
    write(folder / "questions.json", str(warehouse), [one.question for one in asked])
    return [verdict for name, command in readers.items() for verdict in _of_reader(folder, name, command, asked)]


def _of_reader(folder: Path, reader: str, command: Sequence[str], asked: Sequence[Asked]) -> list[Verdict]:
    answers = folder / reader
    answers.mkdir()
    with (answers / "log").open("wb") as log:
        done = subprocess.run([*command, str(folder / "questions.json"), str(answers)], stdout=log, stderr=subprocess.STDOUT)
    if done.returncode:
        said = (answers / "log").read_text()[-2_000:]
        return [Verdict(reader, "all tables", 0, Counter(), Counter(), [f"the program failed: {said}"])]
    verdicts = {one.question.table: Verdict(reader, one.question.table, 0, Counter(), Counter(), []) for one in asked}
    for number, one in enumerate(asked):
        found = verdicts[one.question.table]
        if (path := answers / f"{number}.txt").exists():
            found.refused[path.read_text().splitlines()[0][:_MESSAGE]] += 1
        elif (path := answers / f"{number}.arrow").exists():
            answer = feather.read_table(path)
            difference = compared(one, answer)
            known = [fault.words for fault in FAULTS if fault.reader == reader and fault.explains(one, answer)]
            if difference and known:
                found.faults[known[0]] += 1
            elif difference:
                found.wrong.append(f"{one.question}: {difference}")
            verdicts[found.table] = found._replace(equal=found.equal + (not difference))
    return list(verdicts.values())


def compared(asked: Asked, answer: pa.Table) -> str:
    """What differs; empty: nothing."""
    expected = asked.answer
    if asked.question.what == ROWS:
        if sorted(answer.column_names) != sorted(expected.column_names):
            return f"columns {answer.column_names}, not {expected.column_names}"
        answer = answer.select(expected.column_names)
    elif asked.question.what == FILES:
        answer = answer.filter(pa.compute.equal(answer["content"], 0)).select(["content", "file_path"])
    elif asked.question.what in (SNAPSHOTS, REFS):
        answer = answer.select(expected.column_names)
    found, right = rows(answer), rows(expected)
    if found == right:
        return ""
    there, here = Counter(map(repr, found)), Counter(map(repr, right))
    more, less = list((there - here).elements()), list((here - there).elements())
    return f"{len(found)} rows for {len(right)}; too many: {more[:_SHOWN]}; missing: {less[:_SHOWN]}"


def told(verdicts: Sequence[Verdict]) -> str:
    """A table: reader x table."""
    lines = []
    for one in verdicts:
        parts = {
            "equal": one.equal,
            "refused": one.refused.total(),
            "by its own fault": one.faults.total(),
            "WRONG": len(one.wrong),
        }
        counts = ", ".join(f"{count} {what}" for what, count in parts.items() if count)
        lines.append(f"{one.reader:10} {one.table:42} {counts}")
        lines += [f"{'':12}{times} x {message}" for message, times in (one.refused + one.faults).items()]
        lines += [f"{'':12}WRONG {wrong}" for wrong in one.wrong[:_SHOWN]]
    return "\n".join(lines)
