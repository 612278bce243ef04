"""What a commit needs of the snapshot it follows, as data, so that every attempt can check it again. Pure.

An append needs nothing but options under which its rows still mean the same. A compaction needs its bucket as it was read: if
that changed, `commit.rebase` falls back to the plain append of the same message, or drops the compaction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from lsmlake.errors import CommitConflict
from lsmlake.format.files import BucketState
from lsmlake.schema.schema import Schema


class Requirement(ABC):
    """Needed by a commit as a whole. It cannot become true again: the commit fails."""

    @abstractmethod
    def check(self, number: int, schema: Schema, where: str) -> None:
        """Raises CommitConflict if snapshot `number` (0: none), with `schema` in effect, does not meet the requirement."""


@dataclass(frozen=True)
class Follows(Requirement):
    """No commit came after snapshot `number`; 0: this is the first."""

    number: int

    def check(self, number: int, schema: Schema, where: str) -> None:
        if number != self.number:
            raise CommitConflict("another commit came first", where=where, cure="alter the table again, or pause its writers")


@dataclass(frozen=True)
class SameMeaning(Requirement):
    """The options in effect give files the meaning they have under `schema`, and the same producer writes the changelog."""

    schema: Schema

    def check(self, number: int, schema: Schema, where: str) -> None:
        if schema.id != self.schema.id and _meaning(schema) != _meaning(self.schema):
            raise CommitConflict(
                "the table was altered meanwhile",
                where=where,
                expected=f"schema {self.schema.id}",
                found=f"schema {schema.id}, with options for which these rows were not written",
                cure="run it again",
            )


def _meaning(schema: Schema) -> tuple:
    return schema.parsed_options.meaning, schema.parsed_options.changelog.producer


@dataclass(frozen=True)
class BucketAsRead:
    """Needed by one compaction: the files and vectors of `base` are still there, and no other compaction changed the bucket.
    Newer
    level-0 files do not matter, unless `alone`: the compaction moved rows of its own commit, which would then be older than rows
    that were committed before them."""

    base: BucketState
    alone: bool

    def met(self, now: BucketState) -> bool:
        before = {(file.name, file.level) for file in self.base.files}
        after = {(file.name, file.level) for file in now.files}
        if dict(self.base.vectors) != dict(now.vectors) or not before <= after:
            return False
        return not (after - before) if self.alone else all(level == 0 for _, level in after - before)
