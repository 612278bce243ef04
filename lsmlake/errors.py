"""Every error a caller can meet, cut by "would the caller act differently?".

    LakeError
    ├── TableNotFound (LookupError)       no such table or database, or the path is not a table
    ├── TableExists                       create without if_not_exists
    ├── InvalidOption (ValueError)        unknown, malformed or contradictory option
    ├── InvalidSchema (ValueError)        a schema no table can have
    ├── InvalidData (ValueError)          a batch that does not fit the table; nothing was written
    ├── InvalidQuery (ValueError)         a predicate, column or time travel that cannot be answered
    ├── SnapshotNotFound (LookupError)    the snapshot is not retained
    ├── CommitConflict                    another commit won; nothing was published; run the verb again
    ├── CommitUnknown                     the store did not say whether the commit took place
    ├── Corrupt                           bytes on disk are not what was written
    ├── UnsupportedFormat                 written by a newer lsmlake
    ├── StorageFailed (OSError)           the store refused: disk full, permission, network
    ├── EngineFailed (RuntimeError)       Spark could not do its work; Spark's own error is the cause
    ├── InternalError (RuntimeError)      a fault of lsmlake itself: report it
    └── MissingDependency (ImportError)   something outside the wheel is needed: Java, an extra

A message says what, where, what was expected, what was found and the cure; `LakeError` puts them in that order. A part that names
a call of the library is a `Wording`, which also says how the command line does the same.

Nothing else leaves the library but MemoryError and what is no Exception, such as KeyboardInterrupt: `foreign` turns any other
exception into one of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable


class Wording(str):
    """Text for a program, and `command`: the same for somebody at the command line."""

    command: str

    def __new__(cls, text: str, *, command: str) -> Wording:
        worded = super().__new__(cls, text)
        worded.command = command
        return worded

    def __reduce__(self):
        return _worded, (str(self), self.command)


def _worded(text: str, command: str) -> Wording:
    return Wording(text, command=command)


class LakeError(Exception):
    """Base of all errors of lsmlake.

    `what` is one sentence; `where` a path, table or column; `expected` and `found` the two sides of the
    disagreement; `cure` an imperative sentence. All but `what` may be left out.
    """

    def __init__(self, what: str, *, where: str = "", expected: object = "", found: object = "", cure: str = "") -> None:
        self.what, self.where, self.expected, self.found, self.cure = what, where, expected, found, cure
        super().__init__(self._message(str))

    def for_command_line(self) -> str:
        """The message in terms of commands and flags."""
        return self._message(lambda part: part.command if isinstance(part, Wording) else str(part))

    def _message(self, worded: Callable[[object], str]) -> str:
        what = worded(self.what)
        parts = [f"{self.where}: {what}" if self.where else what]
        parts += [f"expected {worded(self.expected)}"] if self.expected != "" else []
        parts += [f"found {worded(self.found)}"] if self.found != "" else []
        message = ", ".join(parts)
        message = f"{message}; {worded(self.cure)}" if self.cure else message
        return message.encode(errors="backslashreplace").decode()  # text of users may hold what no terminal and no log can

    def __reduce__(self):
        return _rebuild, (type(self), self.what, self.where, self.expected, self.found, self.cure)


def _rebuild(kind, what, where, expected, found, cure):
    return kind(what, where=where, expected=expected, found=found, cure=cure)


class TableNotFound(LakeError, LookupError):
    """No table or database of that name, or a path that holds no table."""


class TableExists(LakeError):
    """The name is taken."""


class InvalidOption(LakeError, ValueError):
    """An option that is unknown, has a malformed value or contradicts another."""


class InvalidSchema(LakeError, ValueError):
    """A schema no table can have."""


class InvalidData(LakeError, ValueError):
    """Rows that do not fit the table; raised before anything is written."""


class InvalidQuery(LakeError, ValueError):
    """A predicate, column list or combination of arguments that has no answer."""


class SnapshotNotFound(LakeError, LookupError):
    """The snapshot is not there (any more)."""


class CommitConflict(LakeError):
    """Another commit won the race every time; nothing was published."""


class CommitUnknown(LakeError):
    """The store failed while publishing and could not be asked; the commit may or may not have taken place."""


class Corrupt(LakeError):
    """A file whose bytes are not those that were written."""


class UnsupportedFormat(LakeError):
    """A file of a format version this release does not know."""


class StorageFailed(LakeError, OSError):
    """The store refused a call."""

    def __init__(self, what: str, **named: object) -> None:
        LakeError.__init__(self, what, **named)

    def __str__(self) -> str:  # OSError would print its errno form
        return Exception.__str__(self)


class MissingDependency(LakeError, ImportError):
    """Something that pip cannot bring or an extra that is not installed."""

    def __str__(self) -> str:  # ImportError prints its own msg field
        return Exception.__str__(self)


class EngineFailed(LakeError, RuntimeError):
    """The attached engine, Spark, could not do what it was asked to. Its own error is the cause (`__cause__`) of this one."""


class InternalError(LakeError, RuntimeError):
    """An error that the library did not foresee. It is the cause (`__cause__`) of this one."""


_ENGINES = ("pyspark.", "py4j.")
_FOUND_MAX = 500
_INSTALL = "install lsmlake where Spark runs Python"
_SHIP = Wording(f"call lsmlake.ship(spark), or {_INSTALL}", command=_INSTALL)
_PYTHON_ERROR = re.compile(r"^(?:\w+\.)*\w+(?:Error|Exception|Interrupt|Exit): .+", re.MULTILINE)
"""The end of a Python traceback inside the message of a Spark error: what failed in a Python process of Spark."""


def foreign(error: Exception, where: str) -> LakeError:
    """The error of this module that stands for an exception of another: the only place where the one becomes the other.

    Raise it `from error`. `where` names what the user called.
    """
    text = str(error)
    found = f"{type(error).__name__}: {text}"[:_FOUND_MAX]
    if f"{type(error).__module__}.".startswith(_ENGINES):
        if "No module named 'lsmlake'" in text:
            what = "the Python processes of Spark cannot import lsmlake"
            return MissingDependency(what, where=where, cure=_SHIP)
        in_python = _PYTHON_ERROR.findall(text.partition("Traceback (most recent call last)")[2])
        found = f"{type(error).__name__}: {in_python[-1]}"[:_FOUND_MAX] if in_python else found
        return EngineFailed("Spark failed", where=where, found=found, cure="Spark's own error, the cause of this one, says more")
    if isinstance(error, OSError):
        return StorageFailed("an input or output failed", where=where, found=found, cure="see the cause and try again")
    if isinstance(error, RecursionError):
        return InvalidQuery("an argument is nested too deeply", where=where, found=type(error).__name__, cure="nest it less")
    if isinstance(error, UnicodeError):
        return InvalidData("text that is no valid Unicode", where=where, found=ascii(found), cure="correct the text")
    return InternalError(
        "an error that lsmlake did not foresee",
        where=where,
        found=found,
        cure="it is a fault of lsmlake: report it, with the traceback of its cause",
    )
