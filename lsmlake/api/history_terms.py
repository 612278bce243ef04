"""What a history keeps of its source, and how: the arguments of `Lake.history_of`, which the options of the history keep."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from lsmlake.errors import InvalidQuery, Wording, with_arguments
from lsmlake.options.history_options import HISTORY_STARTS, LATEST_FULL, SOURCE, HistoryOptions
from lsmlake.schema.schema import Schema

_AS_KEPT = Wording(
    "leave the argument out: then it is as the first call said; or choose another name for the history",
    command="leave the option out: then it is as the first call said; or choose another name for the history",
)


class HistoryTerms(NamedTuple):
    """The arguments of `Lake.history_of`; None: not given. `sequence_by`: a column, or `_commit_time`."""

    track: tuple[str, ...] | None = None
    track_except: tuple[str, ...] | None = None
    sequence_by: str | None = None
    start: str | None = None

    @staticmethod
    def given(
        track: Sequence[str] | None, track_except: Sequence[str] | None, sequence_by: str | None, start: str | None, where: str
    ) -> HistoryTerms:
        """Raises InvalidQuery if the arguments contradict each other."""
        if start is not None and start not in HISTORY_STARTS:
            expected = " or ".join(map(repr, HISTORY_STARTS))
            raise InvalidQuery("unknown start", where=where, expected=expected, found=repr(start), cure="correct it")
        if track is not None and track_except is not None:
            what = with_arguments("{} and {} exclude each other", "track", "track_except")
            raise InvalidQuery(what, where=where, cure="give one of them")
        for name, columns in (("track", track), ("track_except", track_except)):
            if columns is not None and not columns:
                raise InvalidQuery(with_arguments("{} names no column", name), where=where, cure="leave it out, or name columns")
        listed = (None if columns is None else tuple(columns) for columns in (track, track_except))
        return HistoryTerms(*listed, sequence_by, start)

    @staticmethod
    def kept(options: HistoryOptions) -> HistoryTerms:
        """Those of the first call."""
        return HistoryTerms(options.track or None, options.track_except or None, options.sequence_by, options.start)

    def agreed(self, kept: HistoryTerms, where: str) -> HistoryTerms:
        """`kept`, if what this call gives does not contradict it. Raises InvalidQuery."""
        for name, asked, known in zip(self._fields, self, kept, strict=True):
            if asked is not None and _comparable(asked) != _comparable(known):
                raise InvalidQuery(
                    f"the history was made with another {name}",
                    where=where,
                    expected=_shown(known),
                    found=_shown(asked),
                    cure=_AS_KEPT,
                )
        return kept

    def without(self, gone: Collection[str], where: str) -> HistoryTerms:
        """Without columns that the source has no longer. Raises InvalidQuery if it has none of the tracked columns."""
        track, track_except = (
            None if columns is None else tuple(one for one in columns if one not in gone)
            for columns in (self.track, self.track_except)
        )
        if track == ():
            cure = "add one of them to the table again, or make a history of another name"
            raise InvalidQuery("the table has lost all columns to track", where=where, found=list(self.track), cure=cure)
        return self._replace(track=track, track_except=track_except or None)

    def check_new(self, schema: Schema, where: str) -> None:
        """Raises InvalidQuery for names that say nothing, in the arguments of a first call. Later calls repeat what it took."""
        for argument, columns in (("track", self.track), ("track_except", self.track_except)):
            if twice := sorted({one for one in columns or () if columns.count(one) > 1}):
                what = with_arguments("{} names a column twice", argument)
                raise InvalidQuery(what, where=where, found=twice, cure="name it once")
            if key := [one for one in columns or () if one in schema.primary_key]:
                raise InvalidQuery(
                    with_arguments("{} names columns of the primary key, in which rows do not change", argument),
                    where=where,
                    expected="columns outside of the primary key",
                    found=key,
                    cure=with_arguments("leave them out of {}", argument),
                )

    def tracked(self, schema: Schema, where: str) -> tuple[str, ...] | None:
        """The columns of the source of which a change begins a version; None: all. Raises InvalidQuery."""
        named, columns = self.track or self.track_except, schema.columns.names
        if named is None:
            return None
        if unknown := [one for one in named if one not in columns]:
            cure = "correct the names"
            raise InvalidQuery("unknown columns to track", where=where, expected=columns, found=unknown, cure=cure)
        if joined := [one for one in named if "," in one or one != one.strip()]:
            cure = Wording(
                "rename the column of the table, or choose the columns by the other argument, track or track_except",
                command="rename the column of the table, or choose the columns by the other option, --track or --track-except",
            )
            expected = "names without commas and without blanks at their ends"
            raise InvalidQuery("a history cannot keep these names", where=where, expected=expected, found=joined, cure=cure)
        tracked = self.track or tuple(one for one in columns if one not in named)
        if not tracked:
            cure = "name fewer columns in track_except"
            raise InvalidQuery("no column is left to track", where=where, found=list(named), cure=cure)
        return tracked

    def options(self, source: str) -> Mapping[str, str]:
        """The options of a history of `source`."""
        names = {"history.track": self.track, "history.track-except": self.track_except}
        return {
            SOURCE: source,
            **{name: ",".join(columns) for name, columns in names.items() if columns},
            **({"history.sequence-by": self.sequence_by} if self.sequence_by else {}),
            "history.start": self.start or LATEST_FULL,
        }


def _shown(value: tuple[str, ...] | str | None) -> str:
    return "none" if value is None else value if isinstance(value, str) else ", ".join(value)


def _comparable(value: object) -> object:
    return frozenset(value) if isinstance(value, tuple) else value
