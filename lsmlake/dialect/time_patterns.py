"""Patterns of times as Java's DateTimeFormatter has them, such as `yyyy-MM-dd[ HH:mm]`, as expressions of DuckDB.

A pattern is parsed into parts and optional sections. A time is written with all sections. To read a text, each choice of
sections is a regular expression of its own: as in Java, a section is left out only if the text does not have it there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from lsmlake.dialect.sql_types import text

_SECTIONS_MAX = 6
_TOKENS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[\[\]]|[^A-Za-z'\[\]]+|'")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FULL_MONTHS = "(january|february|march|april|may|june|july|august|september|october|november|december)"
_HOURS, _SIXTY = "([01][0-9]|2[0-3])", "([0-5][0-9])"
_OFFSET = "((epoch_us(CAST(t AS TIMESTAMP)) - epoch_us(t)) // 60000000)"
_SIGNED = f"CASE WHEN {_OFFSET} < 0 THEN '-' ELSE '+' END"


class PatternRefused(Exception):
    """A letter that has no equal here. The message says what is wrong with the pattern."""


class _PatternPart(NamedTuple):
    """A letter, repeated, or plain text.

    Attributes:
        format: the letter or text for `strftime`.
        write: instead of `format`, an expression of the time `t`.
        read: a regular expression that reads it from a text, with one group.
        field: the field of a time that the group holds; empty for plain text.
    """

    format: str = ""
    write: str = ""
    read: str = ""
    field: str = ""


def _padded(value: str, width: int) -> str:
    return f"printf('%0{width}d', {value})"


def _hhmm(colon: str) -> str:
    return f"{_SIGNED} || printf('%02d{colon}%02d', abs({_OFFSET}) // 60, abs({_OFFSET}) % 60)"


_HH = (
    f"{_SIGNED} || printf('%02d', abs({_OFFSET}) // 60) "
    f"|| CASE WHEN {_OFFSET} % 60 <> 0 THEN printf('%02d', abs({_OFFSET}) % 60) ELSE '' END"
)
_QUARTERS = "['1st quarter', '2nd quarter', '3rd quarter', '4th quarter'][quarter(t)]"


def _zulu(write: str) -> str:
    return f"CASE WHEN {_OFFSET} = 0 THEN 'Z' ELSE {write} END"


_LETTERS: dict[str, _PatternPart] = {
    "y": _PatternPart("", "CAST(year(t) AS VARCHAR)", "([0-9]{1,9})", "y"),
    "yy": _PatternPart("%y", "", "([0-9]{2})", "yy"),
    "yyy": _PatternPart("", _padded("year(t)", 3), "([0-9]{3,9})", "y"),
    "yyyy": _PatternPart("%Y", "", r"([0-9]{4}|\+[0-9]{5,6})", "y"),
    "yyyyy": _PatternPart("", _padded("year(t)", 5), "([0-9]{5})", "y"),
    "yyyyyy": _PatternPart("", _padded("year(t)", 6), "([0-9]{6})", "y"),
    **{month: _PatternPart("%-m", "", "0*([0-9]{1,2})", "mo") for month in "ML"},
    **{month * 2: _PatternPart("%m", "", "([0-9]{2})", "mo") for month in "ML"},
    **{month * 3: _PatternPart("%b", "", f"({'|'.join(_MONTHS)})", "mon") for month in "ML"},
    **{month * 4: _PatternPart("%B", "", _FULL_MONTHS, "mon") for month in "ML"},
    "d": _PatternPart("%-d", "", "0*([0-9]{1,2})", "d"),
    "dd": _PatternPart("%d", "", "([0-9]{2})", "d"),
    "D": _PatternPart("", "CAST(dayofyear(t) AS VARCHAR)", "0*([0-9]{1,3})", "doy"),
    "DD": _PatternPart("", _padded("dayofyear(t)", 2), "([0-9]{2,3})", "doy"),
    "DDD": _PatternPart("%j", "", "([0-9]{3})", "doy"),
    **{letter: _PatternPart("", "CAST(quarter(t) AS VARCHAR)") for letter in "Qq"},
    **{letter * 2: _PatternPart("", "'0' || quarter(t)") for letter in "Qq"},
    **{letter * 3: _PatternPart("", "'Q' || quarter(t)") for letter in "Qq"},
    **{letter * 4: _PatternPart("", _QUARTERS) for letter in "Qq"},
    **{"E" * times: _PatternPart("%A" if times == 4 else "%a") for times in (1, 2, 3, 4)},
    "F": _PatternPart("", "CAST((day(t) - 1) % 7 + 1 AS VARCHAR)"),
    "a": _PatternPart("%p", "", "(am|pm)", "ap"),
    "h": _PatternPart("%-I", "", "0*([1-9]|1[0-2])", "h12"),
    "hh": _PatternPart("%I", "", "(0[1-9]|1[0-2])", "h12"),
    "K": _PatternPart("", "CAST(hour(t) % 12 AS VARCHAR)", "0*([0-9]|1[01])", "h12"),
    "KK": _PatternPart("", _padded("hour(t) % 12", 2), "(0[0-9]|1[01])", "h12"),
    "H": _PatternPart("%-H", "", "0*([0-9]|1[0-9]|2[0-3])", "h24"),
    "HH": _PatternPart("%H", "", _HOURS, "h24"),
    "k": _PatternPart("", "CAST((hour(t) + 23) % 24 + 1 AS VARCHAR)", "0*([1-9]|1[0-9]|2[0-4])", "h24"),
    "kk": _PatternPart("", _padded("(hour(t) + 23) % 24 + 1", 2), "(0[1-9]|1[0-9]|2[0-4])", "h24"),
    "m": _PatternPart("%-M", "", "0*([0-5]?[0-9])", "mi"),
    "mm": _PatternPart("%M", "", _SIXTY, "mi"),
    "s": _PatternPart("%-S", "", "0*([0-5]?[0-9])", "s"),
    "ss": _PatternPart("%S", "", _SIXTY, "s"),
    **{"S" * n: _PatternPart("", f"left(strftime(t, '%f') || '000', {n})", f"([0-9]{{1,{n}}})", "f") for n in range(1, 10)},
    "SSSSSS": _PatternPart("%f", "", "([0-9]{1,6})", "f"),
    "X": _PatternPart("", _zulu(_HH), "(Z|[+-][0-9]{2}(?:[0-9]{2})?)", "off"),
    **{"X" * n: _PatternPart("", _zulu(_hhmm("")), "(Z|[+-][0-9]{4})", "off") for n in (2, 4)},
    **{"X" * n: _PatternPart("", _zulu(_hhmm(":")), "(Z|[+-][0-9]{2}:[0-9]{2})", "off") for n in (3, 5)},
    "x": _PatternPart("", _HH, "([+-][0-9]{2}(?:[0-9]{2})?)", "off"),
    **{"x" * n: _PatternPart("", _hhmm(""), "([+-][0-9]{4})", "off") for n in (2, 4)},
    **{"x" * n: _PatternPart("", _hhmm(":"), "([+-][0-9]{2}:[0-9]{2})", "off") for n in (3, 5)},
    **{"Z" * n: _PatternPart("", _hhmm(""), "([+-][0-9]{4})", "off") for n in (1, 2, 3)},
    "ZZZZZ": _PatternPart("", _zulu(_hhmm(":")), "(Z|[+-][0-9]{2}:[0-9]{2})", "off"),
    **{zone: _PatternPart("", "", "([A-Za-z0-9+:/_-]+)", "zone") for zone in ("VV", "z", "zz", "zzz")},
    "O": _PatternPart("", "", "(GMT(?:[+-][0-9]{1,2}(?::[0-9]{2})?)?)", "off"),
    **{"G" * n: _PatternPart("", "'Anno Domini'" if n == 4 else "'AD'") for n in (1, 2, 3, 4)},
}  # fmt: skip
"""A letter of a pattern, as often as it is repeated -> its part."""


_NUMBERS = ("y", "yy", "mo", "d", "doy", "h12", "h24", "mi", "s")
"""The fields that begin with a digit."""


def _parsed(pattern: str) -> list:
    """The parts of a pattern; a section is a list of its own."""
    stack: list[list] = [[]]
    for token in _TOKENS.finditer(pattern):
        word = token[0]
        if word == "[":
            stack[-1].append([])
            stack.append(stack[-1][-1])
        elif word == "]" and len(stack) > 1:
            stack.pop()
        elif word == "]" or word == "'" or (token[2] is None and set(word) & set("#{}") and not word.startswith("'")):
            raise PatternRefused(f"{word!r} has no meaning in a pattern of times")
        elif token[2] is None:
            plain = word[1:-1].replace("''", "'") or "'" if word.startswith("'") else word
            stack[-1].append(_PatternPart(plain.replace("%", "%%"), "", re.escape(plain)))
        elif word in _LETTERS:
            stack[-1].append(_LETTERS[word])
        else:
            raise PatternRefused(f"{word!r} is not supported in a pattern of times")
    return stack[0]


def _flat(items: Sequence) -> list[_PatternPart]:
    return [part for item in items for part in (_flat(item) if isinstance(item, list) else [item])]


def written(moment: str, pattern: str) -> str:
    """The text of a TIMESTAMP by a pattern. Raises PatternRefused."""
    parts, sqls, format = _flat(_parsed(pattern)), [], ""
    for part in parts:
        if not part.format and not part.write:
            raise PatternRefused("the name of the time zone cannot be written")
        if part.write:
            sqls, format = [*sqls, *_formatted(format), part.write], ""
        else:
            format += part.format
    sqls += _formatted(format)
    if all(not part.write for part in parts):
        return f"strftime({moment}, {text(format)})" if format else f"CASE WHEN {moment} IS NOT NULL THEN '' END"
    return f"list_transform([{moment}], lambda t: {' || '.join(sqls)})[1]"


def _formatted(format: str) -> list[str]:
    return [f"strftime(t, {text(format)})"] if format else []


def read(value: str, pattern: str) -> str:
    """The instant that a text means by a pattern, in the session's zone; null for another text. Raises PatternRefused."""
    items = _parsed(pattern)
    if _sections(items) > _SECTIONS_MAX:
        raise PatternRefused(f"a pattern with more than {_SECTIONS_MAX} optional sections is not supported")
    if any(not part.read for part in _flat(items)):
        raise PatternRefused("this pattern only writes times")
    cases = []
    for parts, absent in _choices(items):
        shape = _joined(parts)
        conditions = [f"regexp_matches(v, {_regex(shape + '$')})", *(f"NOT regexp_matches(v, {_regex(one)})" for one in absent)]
        cases.append(f"WHEN {' AND '.join(conditions)} THEN {_moment(parts, shape)}")
    return f"list_transform([{value}], lambda v: CASE {' '.join(cases)} END)[1]"


def _regex(shape: str) -> str:
    return text(f"(?is)^{shape}")


def _joined(parts: Sequence[_PatternPart]) -> str:
    """The shape of parts that follow each other. A fraction of a second takes all digits that it can, and gives none back: a
    number behind it begins after as many digits as the pattern has S's."""
    shapes = []
    for part, behind in zip_longest(parts, parts[1:]):
        takes_digits = behind is not None and (behind.field in _NUMBERS or behind.read[:1].isdecimal())
        shapes.append(part.read.replace("{1,", "{") if part.field == "f" and takes_digits else part.read)
    return "".join(shapes)


def _sections(items: Sequence) -> int:
    return sum(1 + _sections(item) for item in items if isinstance(item, list))


def _shape(items: Sequence) -> str:
    return "".join(f"(?:{_shape(item)})?" if isinstance(item, list) else item.read for item in items)


def _choices(items: Sequence) -> list[tuple[tuple[_PatternPart, ...], tuple[str, ...]]]:
    """Each choice of sections: its parts, and what the text must not begin with, because a section that fits is not left out."""
    made: list[tuple[tuple[_PatternPart, ...], tuple[str, ...]]] = [((), ())]
    for item in items:
        if isinstance(item, _PatternPart):
            made = [((*parts, item), absent) for parts, absent in made]
            continue
        before = {parts: _joined(parts) for parts, _ in made}
        inside = [
            ((*parts, *inner), (*absent, *(before[parts] + one for one in missing)))
            for parts, absent in made
            for inner, missing in _choices(item)
        ]
        made = [*inside, *((parts, (*absent, before[parts] + _shape(item))) for parts, absent in made)]
    return made


def _moment(parts: Sequence[_PatternPart], shape: str) -> str:
    names = [part.field for part in parts if part.field]
    if len({"y" if name == "yy" else "mo" if name == "mon" else name for name in names}) < len(names):
        raise PatternRefused("a part of the time stands twice in the pattern")
    if not names:
        return "spark_instant(CAST('1970-01-01' AS TIMESTAMP))"

    def part(name: str) -> str:
        return f"struct_extract(p, '{name}')"

    def number(name: str, default: int) -> str:
        return f"CAST({part(name)} AS BIGINT)" if name in names else str(default)

    year = f"2000 + CAST({part('yy')} AS BIGINT)" if "yy" in names else number("y", 1970)
    month = number("mo", 1)
    if "mon" in names:
        month = f"list_position([{', '.join(map(text, _MONTHS))}], left(lower({part('mon')}), 3))"
    hour = f"{number('h24', 0)} % 24"
    if "h12" in names:
        afternoon = f" + CASE lower({part('ap')}) WHEN 'pm' THEN 12 ELSE 0 END" if "ap" in names else ""
        hour = f"{number('h12', 0)} % 12{afternoon}"
    seconds = f"CAST({number('s', 0)} AS DOUBLE)"
    time = f"{hour}, {number('mi', 0)}, {seconds}"
    local = f"TRY(make_timestamp({year}, {month}, {number('d', 1)}, {time}))"
    if "doy" in names:  # a month or a day beside the day of the year must be its own
        first = f"TRY(make_timestamp({year}, 1, 1, {time}))"
        checks = ["year(o) = year(j)"]
        checks += [f"month(o) = {month}"] if {"mo", "mon"} & set(names) else []
        checks += [f"day(o) = {number('d', 1)}"] if "d" in names else []
        day = f"list_transform([{{'o': j + to_days(CAST({number('doy', 1)} - 1 AS INTEGER)), 'j': j}}], lambda q: "
        fits = " AND ".join(checks).replace("(o)", "(q['o'])").replace("(j)", "(q['j'])")
        local = f"list_transform([{first}], lambda j: {day}CASE WHEN {fits} THEN q['o'] END)[1])[1]"
    if "f" in names:
        local += f" + to_microseconds(CAST(rpad(left({part('f')}, 6), 6, '0') AS BIGINT))"
    made = "spark_instant(l)"
    if "off" in names or "zone" in names:
        zone = f"upper({part('off')})" if "off" in names else part("zone")
        made = f"spark_in_zone(l, {zone})"
    made = f"list_transform([{local}], lambda l: {made})[1]"
    return f"list_transform([regexp_extract(v, {_regex(shape + '$')}, [{', '.join(map(text, names))}])], lambda p: {made})[1]"
