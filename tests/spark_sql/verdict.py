"""What came of a statement, and why: the kinds of an outcome, and the reasons of refusals with names taken out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from lsmlake.errors import InternalError, InvalidQuery, LakeError

EQUAL, REFUSED, BOTH, WRONG, FOREIGN = KINDS = ("equal", "refused", "error in both", "wrong", "foreign")
_RUN = "the statement failed"
"""What an error says that is no refusal: the statement was understood, and failed on a value."""
_FOREIGN = re.compile(
    r"duckdb|binder error|catalog error|parser error|conversion error|invalid input error|out of range error|hugeint"
    r"|varchar(?!\()"
    r"|volatile|candidate functions|explicit type casts|macro|#\d|\br\d+\b|\bcte\d+\b|lsmlake_\d|\bmemory\.main\b|\bblob\b"
    r"|must appear in the group by|not implemented|no function matches|syntax error at or near|referenced (table|column)"
    r"|cannot be cast because|can't be cast because|could not convert|insufficient padding|\bu?int(8|16|32|64|128)\b"
    r"|destination type|\btry expression|has no effect|selection list|not yet supported|invalid timestamp field",
    re.IGNORECASE,
)
"""Words of DuckDB and generated names: only the text of the statement brings them into a message."""
_NAME = re.compile(r"[A-Za-z_]\w*|`[^`]*`|'[^']*'")
_ENGLISH = frozenset(
    "a all an and as at be by date for from in is it join like no not of on or that the this to type values with".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Outcome:
    """`reason`: of a refusal, without the names in `detail`. `found`: what came instead of what was `expected`. `failed`: whether
    Spark raised an error."""

    place: str
    text: str
    kind: str
    reason: str = ""
    detail: str = ""
    expected: str = ""
    found: str = ""
    failed: bool = False

    @property
    def file(self) -> str:
        return self.place.rpartition(" ")[0]


def of_error(place: str, text: str, error: Exception, expected: str, failed: bool) -> Outcome:
    """The outcome of a statement that raised an error here. `failed`: whether Spark raised one, too."""
    found = f"{type(error).__name__}: {error}"
    if not isinstance(error, LakeError) or isinstance(error, InternalError) or _is_foreign(error, text):
        return Outcome(place, text, FOREIGN, expected=expected, found=found, failed=failed)
    if failed:
        return Outcome(place, text, BOTH, found=found, failed=True)
    if not isinstance(error, InvalidQuery) or error.what == _RUN:
        return Outcome(place, text, WRONG, expected=expected, found=found)
    reason, detail = without_names(str(error.what), text)
    return Outcome(place, text, REFUSED, reason, detail, expected, found)


def _is_foreign(error: LakeError, text: str) -> bool:
    """Whether a message has a word that the user did not write."""
    written = text.lower()
    parts = " ".join(str(part) for part in (error.what, error.expected, error.found, error.cure))
    return any(one.group().lower() not in written for one in _FOREIGN.finditer(parts))


def without_names(what: str, text: str) -> tuple[str, str]:
    """A message with a blank for each word that the statement has, but for words of SQL, and these words."""
    written = {word.strip("`'").lower() for word in _NAME.findall(text)}
    names: list[str] = []

    def blank(found: re.Match) -> str:
        word = found.group()
        if word.isupper() or word.strip("`'").lower() not in written or word in _ENGLISH:
            return word
        names.append(word)
        return "_"

    return re.sub(r"\d+", "0", _NAME.sub(blank, what)), " ".join(names)


def by_reason(outcomes: Iterable[Outcome]) -> list[str]:
    """The refusals, the most frequent first: number, reason, the names most often in it."""
    refused = [one for one in outcomes if one.kind == REFUSED]
    details: dict[str, Counter] = {}
    for one in refused:
        details.setdefault(one.reason, Counter())[one.detail] += 1
    lines = []
    for reason, number in Counter(one.reason for one in refused).most_common():
        names = ", ".join(f"{name} {times}" for name, times in details[reason].most_common(40) if name)
        lines.append(f"{number:6}  {reason}{f'   [{names}]' if names else ''}")
    return lines


def by_file(outcomes: Iterable[Outcome]) -> list[str]:
    """A table: for each file the number of each kind."""
    numbers: dict[str, Counter] = {}
    for one in outcomes:
        numbers.setdefault(one.file, Counter())[one.kind] += 1
    width = max(map(len, numbers), default=4)
    lines = [f"{'':{width}}  " + "  ".join(f"{kind:>13}" for kind in KINDS)]
    for file, found in sorted(numbers.items()):
        lines.append(f"{file:{width}}  " + "  ".join(f"{found[kind] or '':>13}" for kind in KINDS))
    total = Counter(one.kind for one in outcomes)
    lines.append(f"{'all':{width}}  " + "  ".join(f"{total[kind]:>13}" for kind in KINDS))
    return lines


def share(outcomes: Iterable[Outcome]) -> str:
    """How much of what Spark answers is answered."""
    kinds = Counter(one.kind for one in outcomes if not one.failed)
    answered = sum(kinds.values())
    return f"{kinds[EQUAL]:,} of {answered:,} statements that Spark answers are equal: {kinds[EQUAL] / max(answered, 1):.1%}"


def told(one: Outcome) -> str:
    return f"== {one.place} ({one.kind})\n{one.text}\n-- expected\n{one.expected}\n-- found\n{one.found}\n"
