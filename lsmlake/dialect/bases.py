"""`conv`: a whole number of 64 bits in another base."""

from __future__ import annotations

from sqlglot import exp

from lsmlake.dialect.calling import Arguments, Function, counted
from lsmlake.dialect.context import Context
from lsmlake.dialect.failures import refused
from lsmlake.dialect.scope import Typed
from lsmlake.dialect.types import INT, STRING

_BITS = 2**64
_TOO_LONG = refused("'the number has more than 64 bits; shorten it'")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

MACROS = {
    # the digits of s as numbers, up to the first that is none in base b; their value, or -1 if it has more than 64 bits
    "spark_digit_values(s)": f"list_transform(range(1, length(s) + 1), lambda i: instr('{_DIGITS}', upper(s[i])) - 1)",
    "spark_leading(a, b)": "list_slice(a, 1, coalesce(list_position(list_transform(a, lambda d: d < 0 OR d >= b), true) - 1, "
    "len(a)))",
    "spark_whole_of(s, b)": "list_reduce(list_transform(spark_leading(spark_digit_values(s), b), lambda d: CAST(d AS HUGEINT)), "
    f"lambda v, d: CASE WHEN v < 0 OR v * b + d >= {_BITS} THEN -1 ELSE v * b + d END, CAST(0 AS HUGEINT))",
    "spark_based(v, b)": "list_reduce(list_transform(range(65), lambda i: {'v': v, 's': ''}), lambda a, i: "
    "CASE WHEN a['v'] = 0 THEN a ELSE {'v': a['v'] // b, "
    f"'s': substr('{_DIGITS}', CAST(a['v'] % b + 1 AS BIGINT), 1) || a['s']}} END)['s']",
    "spark_shown(v, b)": "CASE WHEN v = 0 THEN '0' ELSE spark_based(v, b) END",
    # n: the number is negative. Of its 64 bits the highest is a sign only if the new base is negative
    "spark_unsigned(v, n)": f"CASE WHEN NOT n OR v = 0 THEN v WHEN v >= {_BITS // 2} THEN {_BITS - 1} ELSE {_BITS} - v END",
    "spark_signed(v)": f"CASE WHEN v >= {_BITS // 2} THEN {_BITS} - v ELSE v END",
    "spark_in_base(v, n, t)": f"CASE WHEN t IS NULL OR v IS NULL THEN NULL WHEN v < 0 THEN {_TOO_LONG} "
    f"WHEN t < 0 THEN CASE WHEN n OR v >= {_BITS // 2} THEN '-' ELSE '' END || spark_shown(spark_signed(v), -t) "
    "ELSE spark_shown(spark_unsigned(v, n), t) END",
    "spark_conv_trimmed(s, f, t)": "list_transform([{'v': spark_whole_of(ltrim(regexp_replace(s, '^-', ''), '0'), f), "
    "'n': starts_with(s, '-'), 't': t}], lambda o: spark_in_base(o['v'], o['n'], o['t']))[1]",
    "spark_conv(s, f, t)": "CASE WHEN f NOT BETWEEN 2 AND 36 OR abs(t) NOT BETWEEN 2 AND 36 OR trim(s, ' ') = '' THEN NULL "
    "ELSE spark_conv_trimmed(trim(s, ' '), f, t) END",
}
"""Head -> body."""


def _conv(context: Context, node: exp.Expression, arguments: Arguments) -> Typed:
    value, *bases = counted(context, node, arguments, 3)
    digits = context.converted(arguments[0], value, STRING)
    old, new = (context.converted(*pair, INT) for pair in zip(arguments[1:], bases, strict=True))
    return Typed(f"spark_conv({digits}, {old}, {new})", STRING)


FUNCTIONS: dict[str, Function] = {"conv": _conv}
