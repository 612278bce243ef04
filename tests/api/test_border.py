"""The border of the public API: checks arguments against signatures, and turns foreign exceptions into LakeErrors."""

from __future__ import annotations

import inspect
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from lsmlake.border import public, type_of
from lsmlake.errors import EngineFailed, InternalError, InvalidData, InvalidQuery, LakeError, MissingDependency, StorageFailed


class SparkError(Exception):
    """Stands for one of PySpark's."""


SparkError.__module__ = "pyspark.errors.exceptions"


@public
class Verbs:
    def verb(self, rows: int, *, names: Sequence[str] | None = None, flag: bool = False) -> int:
        """Says one thing."""
        return rows

    def fail(self, error: object) -> None:
        raise error

    def walk(self, error: object) -> Iterator[int]:
        yield 1
        raise error

    @property
    def broken(self) -> int:
        raise KeyError("x")

    def __len__(self) -> int:
        raise AttributeError("y")

    def _own(self, rows: int) -> int:
        return rows


def test_signatures_and_docstrings_stay():
    assert str(inspect.signature(Verbs.verb)).startswith("(self, rows: 'int', *, names: 'Sequence[str] | None' = None")
    assert Verbs.verb.__doc__ == "Says one thing."
    assert Verbs.verb.__qualname__ == "Verbs.verb"
    assert Verbs()._own("anything") == "anything"


@pytest.mark.parametrize(
    ("given", "named", "words"),
    [
        (("1",), {}, "verb(): rows has the wrong type, expected an integer, found '1'"),
        ((True,), {}, "rows has the wrong type, expected an integer, found True"),
        ((1,), {"names": "a"}, "names has the wrong type, expected a list of names or None, found 'a'; write ['a']"),
        ((1,), {"names": [1]}, "names has the wrong type, expected a list of names or None, found [1]"),
        (
            (1,),
            {"names": ["\ud800"]},
            r"names contains text that is not valid Unicode, expected a list of names or None, found ['\ud800']",
        ),
        (
            (1,),
            {"names": {"a"}},
            "expected a list of names or None, found {'a'}; pass a list: a set has no order",
        ),
        ((1,), {"flag": "yes"}, "flag has the wrong type, expected True or False, found 'yes'"),
        ((1,), {"flag": None}, "flag has the wrong type"),
    ],
)
def test_a_wrong_argument_is_named(given, named, words):
    with pytest.raises(InvalidQuery) as caught:
        Verbs().verb(*given, **named)
    assert words in str(caught.value)
    assert str(caught.value).encode()


@pytest.mark.parametrize("rows", [np.int64(7), np.uint8(7), np.array(7), 7])
def test_integers_of_other_libraries_become_those_of_python(rows):
    """So that code behind the border, JSON and the format see one kind of integer."""
    assert type(Verbs().verb(rows)) is type(Verbs().verb(rows=rows)) is int
    assert Verbs().verb(rows, flag=np.True_) == 7
    with pytest.raises(InvalidQuery, match="an integer"):
        Verbs().verb(np.float64(7))


def test_annotations_say_what_a_function_gets():
    assert list(map(type, type_of(Sequence[int] | None).made((np.int64(1), 2)))) == [int, int]
    assert type(type_of(float | None).made(np.float32(0.5))) is float
    assert type_of(float | None).made(None) is None
    names = ["a"]
    assert type_of(Sequence[str]).made(names) is names
    assert type_of(Sequence[str] | None).made(np.array(["a"])) == type_of(Collection[str]).made({"a"}) == names


def test_a_call_with_other_parameters_is_a_type_error_of_python():
    with pytest.raises(TypeError, match=r"Verbs\.verb\(\) got an unexpected keyword argument 'row'"):
        Verbs().verb(row=1)


def in_a_worker(error: str) -> str:
    """What Spark says of an error in one of its Python processes, in the middle of a long text."""
    lines = "\n".join(f'  File "worker.py", line {n}, in f\n    f()' for n in range(100))
    return f"[FAILED]\nTraceback (most recent call last):\n{lines}\n{error}\n\n\tat org.apache.spark.X.f(X.scala)"


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            KeyError("x"),
            InternalError,
            "fail: an unexpected error in lsmlake, found KeyError: 'x'; please report it",
        ),
        (AssertionError(), InternalError, "found AssertionError"),
        (PermissionError(13, "denied"), StorageFailed, "found PermissionError: [Errno 13] denied"),
        (RecursionError(), InvalidQuery, "nested too deeply"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"), InvalidData, r"'\\ud800'"),
        (SparkError("a task died"), EngineFailed, "Spark failed, found SparkError: a task died"),
        (
            SparkError(in_a_worker("ValueError: the last bad row")),
            EngineFailed,
            "Spark failed, found SparkError: ValueError: the last bad row;",
        ),
        (
            SparkError(in_a_worker("ModuleNotFoundError: No module named 'lsmlake'")),
            MissingDependency,
            "cannot import lsmlake; call lsmlake.ship(spark)",
        ),
    ],
)
def test_a_foreign_exception_becomes_an_error_of_the_library_with_its_cause(error, kind, words):
    for call in (lambda: Verbs().fail(error), lambda: list(Verbs().walk(error))):
        with pytest.raises(LakeError) as caught:
            call()
        assert type(caught.value) is kind
        assert caught.value.__cause__ is error
        assert words.replace("fail:", "") in str(caught.value).replace("walk:", "").replace("fail:", "")
        assert caught.value.cure


def test_properties_and_protocols_have_the_border_too():
    with pytest.raises(InternalError, match=r"broken: .*KeyError"):
        _ = Verbs().broken
    with pytest.raises(InternalError, match=r"__len__: .*AttributeError"):
        len(Verbs())


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt(), SystemExit(1), InvalidData("ours")])
def test_these_pass(error):
    for call in (lambda: Verbs().fail(error), lambda: list(Verbs().walk(error))):
        with pytest.raises(BaseException) as caught:
            call()
        assert caught.value is error


@pytest.mark.parametrize(
    ("hint", "fitting", "others"),
    [
        (str, ["", "a"], [1, None, b"a", "\udfff"]),
        (float | None, [1, 1.5, None], ["1", True]),
        (Literal["a", "b"], ["a", "c"], [1, None]),
        (Mapping[str, object], [{}, {"a": [1]}], [[], {1: 1}, {"a": "\ud800"}, {"\ud800": 1}, "a"]),
        (int, [1, np.int8(1)], [True, np.True_, 1.0, np.float64(1), np.array([1, 2]), "1"]),
        (bool, [True, np.False_], [1, np.int8(1), "true"]),
        (Sequence[int], [[], (1,), {1: 2}.keys(), np.arange(3)], [1, "1", [None], iter([1]), {1: 2}, {1}, frozenset()]),
        (Collection[int], [[], (1,), {1, 2}, np.arange(3)], [1, "1", [None], iter([1]), {1: 2}]),
        (str | os.PathLike[str], ["a", Path()], [1, None]),
    ],
)
def test_annotations_say_what_fits(hint, fitting, others):
    wanted = type_of(hint)
    assert [value for value in fitting if not wanted.fits(value)] == []
    assert [value for value in others if wanted.fits(value)] == []
