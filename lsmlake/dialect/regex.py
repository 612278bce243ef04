"""Regular expressions of Java as those of RE2, where both mean the same. Parts that RE2 lacks or reads otherwise are refused.

RE2 has no look-ahead, so `$`, which in Java also stands before a last line end, becomes an optional group of that line end and
the end of the text: `Regex.ends` lists such groups, and a caller that needs the place of a match leaves them out of it.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class RegexRefused(Exception):
    """A part of a regular expression that has no equal in RE2. The message is that part."""


class Regex(NamedTuple):
    """A regular expression.

    Attributes:
        re2: the expression of RE2.
        python: the same for Python's `re`, to ask what the expression matches.
        groups: the number of groups that the text has.
        ends: the numbers of the groups, in RE2, that hold the line end after a `$`.
        breaks: whether the rest of the expression may match a line end.
        grouped: whether such a group is inside of a group of the text, which then holds the line end, too.
    """

    re2: str
    python: str
    groups: int
    ends: tuple[int, ...]
    breaks: bool
    grouped: bool


_FLAGS = re.compile(r"\(\?([is]+)\)")
_REPEAT = re.compile(r"\{\d{1,3}(,\d{0,3})?\}")
_HEX = re.compile(r"\\x([0-9A-Fa-f]{2})|\\u([0-9A-Fa-f]{4})")
_CATEGORY = re.compile(r"\\([pP])(?:\{([A-Z][a-z]?|[A-Z][a-z]{2,})\}|([A-Z]))")
_POSIX = {"Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9", "Upper": "A-Z", "Lower": "a-z", "XDigit": "0-9a-fA-F"}
_SPACES = r"\t\n\x0B\f\r "
_LINE_END = r"\r\n|[\n\r\x{0085}\x{2028}\x{2029}]"
_NO_LINE_END = r"[^\n\r\x{0085}\x{2028}\x{2029}]"
_PLAIN_ESCAPES = "dDwW"
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f", "a": r"\x07", "e": r"\x1B"}


def regex(pattern: str) -> Regex:
    """The translation of a pattern of Java. Raises RegexRefused."""
    return _PatternReader(pattern).read()


class _PatternReader:
    """Reads a pattern from the left."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.place = pattern, 0
        self.ignores_case = self.dot_is_all = self.breaks = False
        self.made: list[tuple[str, str]] = []
        self.opened, self.ends, self.groups, self.grouped = 0, [], 0, False
        self.around: list[bool] = []  # the open groups: whether they are numbered

    def read(self) -> Regex:
        if flags := _FLAGS.match(self.pattern):
            self.ignores_case, self.dot_is_all = "i" in flags[1], "s" in flags[1]
            self.place = flags.end()
        while self.place < len(self.pattern):
            self._part()
        re2, python = ("".join(part) for part in zip(*self.made, strict=True)) if self.made else ("", "")
        try:
            re.compile(python)
        except re.error as error:
            raise RegexRefused(f"{self.pattern}: {error}") from error
        return Regex(re2, python, self.groups, tuple(self.ends), self.breaks, self.grouped)

    def _part(self) -> None:
        rest = self.pattern[self.place :]
        char = rest[0]
        if char == "\\":
            self._escape(rest)
        elif char == "[":
            self._class()
        elif char == "(":
            self._group(rest)
        elif char == "$":
            self._end(1)
        elif char == ")":
            self.around = self.around[:-1]
            self._add(")", ")", 1)
        elif char in "*+?" or char == "{":
            self._repeat(rest)
        elif char == ".":
            self.breaks = self.breaks or self.dot_is_all
            self._add("(?s:.)", "[\\s\\S]", 1) if self.dot_is_all else self._add(_NO_LINE_END, ".", 1)
        elif self.ignores_case and char.isalpha():
            self._add(*[self._both_cases(char, rest)] * 2, 1)
        else:
            self.breaks = self.breaks or char in "\n\r\u0085\u2028\u2029"
            self._add(char, char, 1)

    def _add(self, re2: str, python: str, length: int) -> None:
        self.made.append((re2, python))
        self.place += length

    def _both_cases(self, char: str, rest: str) -> str:
        if not char.isascii():
            raise RegexRefused(f"(?i) with {rest[:1]}")
        return f"[{char.lower()}{char.upper()}]"

    def _group(self, rest: str) -> None:
        self.around = [*self.around, not rest.startswith("(?:")]
        if rest.startswith("(?:"):
            self._add("(?:", "(?:", 3)
        elif named := re.match(r"\(\?<([A-Za-z][A-Za-z0-9]*)>", rest):
            self.opened, self.groups = self.opened + 1, self.groups + 1
            self._add("(", "(", named.end())
        elif rest.startswith("(?"):
            raise RegexRefused(rest[:3])
        else:
            self.opened, self.groups = self.opened + 1, self.groups + 1
            self._add("(", "(", 1)

    def _repeat(self, rest: str) -> None:
        match = _REPEAT.match(rest) if rest[0] == "{" else re.match(r"[*+?]", rest)
        if match is None:
            raise RegexRefused(rest[:1])
        after = rest[match.end() : match.end() + 1]
        if after == "+":
            raise RegexRefused(f"{match[0]}+")
        length = match.end() + (after == "?")
        self._add(rest[:length], rest[:length], length)

    def _end(self, length: int) -> None:
        """`$` or `\\Z`: at the end of the text, or before a line end there."""
        before = self.pattern[: self.place]
        if not _is_last(self.pattern[self.place + length :]) or before.endswith(("\\r", "\r", "\\r]", "\\n", "\n")):
            raise RegexRefused("$ before something else")
        self.opened += 1
        self.ends.append(self.opened)
        self.grouped = self.grouped or any(self.around)
        self._add(rf"({_LINE_END})?\z", r"(\n)?\Z", length)

    def _escape(self, rest: str) -> None:
        char = rest[1:2]
        if rest.startswith("\\Q"):
            plain = rest[2:].partition("\\E")[0]
            if self.ignores_case:
                raise RegexRefused("\\Q after (?i)")
            self._add(re.escape(plain), re.escape(plain), min(len(plain) + 4, len(rest)))
        elif char in ("A", "z"):
            self._add(f"\\{char}", "\\A" if char == "A" else "\\Z", 2)
        elif char == "Z":
            self._end(2)
        else:
            re2, python, length, breaks = _escaped(rest, inside=False)
            self.breaks = self.breaks or breaks
            self._add(re2, python, length)

    def _class(self) -> None:
        place, made = self.place + 1, "["
        if self.pattern.startswith("^", place):
            place, made, self.breaks = place + 1, "[^", True
        first = place
        while place < len(self.pattern) and (self.pattern[place] != "]" or place == first):
            rest = self.pattern[place:]
            if rest[0] in "[]" or rest.startswith("&&"):
                raise RegexRefused(rest[:2])
            if rest[0] == "\\":
                re2, _, length, breaks = _escaped(rest, inside=True)
                made, place, self.breaks = made + re2, place + length, self.breaks or breaks
                continue
            span = re.match(r"([A-Za-z0-9])-([A-Za-z0-9])", rest)
            part = span[0] if span else rest[0]
            made, place = made + part + (_swapped(part) if self.ignores_case else ""), place + len(part)
            self.breaks = self.breaks or part in "\n\r\u0085\u2028\u2029"
        if place == len(self.pattern):
            raise RegexRefused("[")
        python = re.sub(r"\\x\{([0-9A-F]+)\}", lambda match: f"\\u{int(match[1], 16):04x}", f"{made}]")
        self._add(f"{made}]", "[^a]" if "\\p" in made or "\\P" in made else python.replace("[[", "[\\["), place + 1 - self.place)


def _swapped(part: str) -> str:
    """A character or a range of a class with the other case of its letters."""
    ends = part.split("-") if len(part) == 3 else [part]
    if not part.isascii() or (len({(end.isalpha(), end.isupper()) for end in ends}) > 1):
        raise RegexRefused(f"(?i) with [{part}]")
    return part.swapcase() if ends[0].isalpha() else ""


def _escaped(rest: str, inside: bool) -> tuple[str, str, int, bool]:
    """A part that begins with a backslash: for RE2, for Python, its length, whether it matches line ends."""
    char = rest[1:2]
    if char == "s":
        return (_SPACES if inside else f"[{_SPACES}]"), (_SPACES if inside else f"[{_SPACES}]"), 2, True
    if char == "S" and not inside:
        return f"[^{_SPACES}]", f"[^{_SPACES}]", 2, False
    if char and char in _PLAIN_ESCAPES:
        return rest[:2], rest[:2], 2, char in "DW"
    if char in _CONTROLS:
        return _CONTROLS[char], _CONTROLS[char], 2, char in "nr"
    if match := _HEX.match(rest):
        code = int(match[1] or match[2], 16)
        return f"\\x{{{code:X}}}", f"\\u{code:04x}", match.end(), code in (10, 13, 0x85, 0x2028, 0x2029)
    if match := _CATEGORY.match(rest):
        name = match[2] or match[3]
        if name in _POSIX and match[1] == "p":
            letters = _POSIX[name]
            return (letters, letters, match.end(), False) if inside else (f"[{letters}]", f"[{letters}]", match.end(), False)
        if len(name) <= 2:
            return match[0], "[^a]", match.end(), True
        raise RegexRefused(match[0])
    if char and not char.isalnum():
        return rest[:2], rest[:2], 2, False
    raise RegexRefused(rest[:2])


def _is_last(rest: str) -> bool:
    """Whether nothing but the ends of groups and other alternatives can follow."""
    if re.search(r"\\[()|]|\[[^\]]*[()|]", rest):
        return False
    while rest:
        if rest[0] == ")":
            rest = rest[1:]
        elif rest[0] == "|":
            depth, place = 0, 1
            while place < len(rest) and not (rest[place] == ")" and depth == 0):
                if rest[place] in "[\\":
                    place += 1
                    continue
                depth += {"(": 1, ")": -1}.get(rest[place], 0)
                place += 1
            rest = rest[place:]
        else:
            return False
    return True
