"""Floating-point numbers as Java writes and rounds them, by their digits, as macros of DuckDB.

Java writes the fewest digits that read back as the same number, and a power of ten from 10**7 and below 10**-3. DuckDB writes one
digit more for a FLOAT midway between two texts. Of a whole number below 2**63 with more bits
than the mantissa Java 17 writes more digits: it leaves out only those that are surely not significant.
"""

from __future__ import annotations

from typing import NamedTuple


class _FloatKind(NamedTuple):
    """`bits`: the bits of the mantissa. `least`: a smaller number may have one digit, where Java writes two. `text`: the text of
    a number from 10**-3 to 10**7, without a power of ten."""

    bits: int
    least: str
    text: str


_KINDS = {
    "double": _FloatKind(53, "1e-321", "CAST(x AS VARCHAR)"),
    "float": _FloatKind(
        24,
        "1e-43",
        "CASE WHEN length(rtrim(CAST(spark_digits(CAST(x AS VARCHAR)) AS VARCHAR), '0')) > 8 "
        "AND CAST(format('{:.8g}', x) AS FLOAT) = x THEN format('{:.8g}', x) ELSE CAST(x AS VARCHAR) END",
    ),
}
_DIGITS, _EXPONENT = "struct_extract(b, 'd')", "struct_extract(b, 'e')"
_SPECIAL = "WHEN isnan(x) THEN 'NaN' WHEN isinf(x) THEN CASE WHEN x > 0 THEN '' ELSE '-' END || 'Infinity'"


def _of(name: str) -> dict[str, str]:
    """The macros of a type of numbers."""
    kind = _KINDS[name]
    whole = f"spark_whole_digits(TRY_CAST(x AS BIGINT), spark_dropped(TRY_CAST(x AS BIGINT), {kind.bits}))"
    plain = "x = 0 OR (abs(x) >= CAST('0.001' AS DOUBLE) AND abs(x) < 10000000)"
    sign = "CASE WHEN x < 0 THEN '-' ELSE '' END"
    return {
        f"spark_{name}_digits(x)": f"CASE WHEN x < {kind.least} AND length(split_part(CAST(x AS VARCHAR), 'e', 1)) = 1 "
        f"THEN printf('%.1e', x) WHEN x >= {1 << kind.bits} AND x < 9223372036854775808 THEN {whole} ELSE {kind.text} END",
        f"spark_{name}_text(x)": f"CASE WHEN x IS NULL THEN NULL WHEN {plain} THEN {kind.text} {_SPECIAL} "
        f"ELSE {sign} || spark_science(spark_{name}_digits(abs(x))) END",
    }


def _rounded(up: str) -> str:
    """A number rounded to n digits after the point, or before it. `up`: whether the digits that stay are raised by one.

    The digits are those of the text, as in Java. Where a DECIMAL holds them all, it rounds them faster.
    """
    digits, dropped, number = (f"struct_extract(b, '{name}')" for name in "dkx")
    kept, rest, unit = f"{digits} // spark_ten({dropped})", f"{digits} % spark_ten({dropped})", f"spark_ten({dropped})"
    raised = f"CASE WHEN {up.format(kept=kept, rest=rest, unit=unit)} THEN 1 ELSE 0 END"
    sign = f"CASE WHEN {number} < 0 THEN '-' ELSE '' END"
    bound = (
        "list_transform(list_transform([{'x': x, 't': CAST(abs(x) AS VARCHAR)}], lambda p: {'x': struct_extract(p, 'x'), "
        "'d': spark_digits(struct_extract(p, 't')), 'k': -spark_exponent(struct_extract(p, 't')) - n})"
    )
    return (
        f"{bound}, lambda b: CASE WHEN {dropped} <= 0 THEN {number} + 0 WHEN {dropped} > 18 THEN 0 "
        f"ELSE CAST({sign} || ({kept} + {raised}) || 'e' || -n AS DOUBLE) + 0 END)[1]"
    )


_HALF_UP, _HALF_EVEN = "{rest} >= {unit} - {rest}", "{rest} > {unit} - {rest} OR ({rest} = {unit} - {rest} AND {kept} % 2 = 1)"
_IN_DECIMAL = "n BETWEEN 0 AND 10 AND (x = 0 OR (abs(x) >= CAST('0.001' AS DOUBLE) AND abs(x) < 1e17))"

MACROS = {
    "spark_ten(n)": "CAST(pow(10, n) AS BIGINT)",
    # of a text such as 12.5e-07: 125, and -8
    "spark_digits(t)": "abs(TRY_CAST(replace(split_part(t, 'e', 1), '.', '') AS BIGINT))",
    "spark_exponent(t)": "(coalesce(TRY_CAST(split_part(t, 'e', 2) AS INTEGER), 0) "
    "- CASE WHEN contains(t, '.') THEN length(split_part(t, 'e', 1)) - instr(t, '.') ELSE 0 END)",
    "spark_power(b)": f"left({_DIGITS}, 1) || '.' || coalesce(nullif(rtrim(substr({_DIGITS}, 2), '0'), ''), '0') || 'E' "
    f"|| ({_EXPONENT} + length({_DIGITS}) - 1)",
    "spark_science(x)": "list_transform(list_transform([x], "
    "lambda t: {'d': CAST(spark_digits(t) AS VARCHAR), 'e': spark_exponent(t)}), lambda b: spark_power(b))[1]",
    # how many digits of w are not significant if the mantissa has b bits
    "spark_dropped(w, b)": "CASE WHEN length(bin(w)) - b > 3 "
    "THEN CAST(floor((length(bin(w)) - b - 2) * 0.30103) AS INTEGER) ELSE 0 END",
    "spark_whole_digits(w, n)": "(w // spark_ten(n) "
    "+ CASE WHEN n > 0 AND w % spark_ten(n) >= spark_ten(n) // 2 THEN 1 ELSE 0 END) || 'e' || n",
    **_of("double"),
    **_of("float"),
    "spark_round(x, n)": f"CASE WHEN x IS NULL OR NOT isfinite(x) THEN x WHEN {_IN_DECIMAL} "
    f"THEN CAST(round(CAST(CAST(x AS VARCHAR) AS DECIMAL(38,20)), n) AS DOUBLE) ELSE {_rounded(_HALF_UP)} END",
    "spark_round_even(x, n)": f"CASE WHEN x IS NULL OR NOT isfinite(x) THEN x ELSE {_rounded(_HALF_EVEN)} END",
    # a whole number u, rounded to units of m
    "spark_units_up(u, m)": "u // m + CASE WHEN abs(u % m) >= m - abs(u % m) THEN sign(u) ELSE 0 END",
    "spark_units_even(u, m)": "u // m + CASE WHEN abs(u % m) > m - abs(u % m) "
    "OR (abs(u % m) = m - abs(u % m) AND (u // m) % 2 <> 0) THEN sign(u) ELSE 0 END",
    "spark_units_ceil(u, m)": "u // m + CASE WHEN u % m > 0 THEN 1 ELSE 0 END",
    "spark_units_floor(u, m)": "u // m - CASE WHEN u % m < 0 THEN 1 ELSE 0 END",
}
"""Head -> body."""
