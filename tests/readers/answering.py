"""Answers questions with a reader and writes the answers, as Arrow files; what the reader refuses, as text.

Runs in the environment of the reader, where lsmlake is not installed.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
from questions import Question, read

Answer = Callable[[Question], pa.Table]


class NotAsked(Exception):
    """The reader has no such question."""


def answer_all(opened: Callable[[str], Answer], arguments: Sequence[str]) -> None:
    """The program of a reader.

    Args:
        opened: given the warehouse, returns what answers a question.
        arguments: the file of questions, the folder of answers, and a file: the questions are asked again and again until it
            exists; without it, once.
    """
    questions_file, folder, *end = arguments
    warehouse, questions = read(Path(questions_file))
    answer = opened(warehouse)
    if end:
        _watch(answer, questions, Path(folder), Path(end[0]))
        return
    for number, question in enumerate(questions):
        error = _answered(answer, question, Path(folder) / f"{number}.arrow")
        if error:
            (Path(folder) / f"{number}.txt").write_text(error)


def _answered(answer: Answer, question: Question, path: Path) -> str:
    """What went wrong."""
    try:
        feather.write_feather(answer(question), str(path), compression="uncompressed")
    except NotAsked:
        return ""
    except Exception as refused:  # of any kind, by any reader
        return f"{type(refused).__name__}: {refused}\n\n{traceback.format_exc()}"
    return ""


def _watch(answer: Answer, questions: Sequence[Question], folder: Path, end: Path) -> None:
    """Answer until the file `end` exists; the file `reads` has a line for each answer."""
    turn = 0
    with (folder / "reads").open("w", buffering=1) as log:
        while not end.exists():
            for number, question in enumerate(questions):
                name, started = f"{number}-{turn}.arrow", time.time()
                error = _answered(answer, question, folder / name)
                line = {"question": number, "started": started, "ended": time.time(), "answer": name}
                log.write(json.dumps({**line, **({"error": error} if error else {})}) + "\n")
            turn += 1
