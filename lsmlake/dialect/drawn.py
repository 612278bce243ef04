"""Values that are drawn: each evaluation gives another one. They may be computed, but choose no rows of a change.

DuckDB draws as often as a call stands in its SQL, and a macro repeats its arguments. So where a translation needs a drawn value
more than once, or hands it to a macro, the value becomes the variable of a lambda over an array that holds it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from lsmlake.dialect.text import Text, peek

NAMES = frozenset(
    ("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id", "spark_partition_id")
) | {"input_file_name", "input_file_block_start", "input_file_block_length"}
"""Functions of Spark that give another value each time, or depend on how rows are read."""
CHOOSES_NO_ROWS = "cannot choose rows: a condition must give the same each time"
CURE = "compute it into a column first"
"""Why a condition is refused, behind the name of the function, and what to do."""
_TWICE = "nullif", "nullifzero", "between"
_CALLS = ("random()", "gen_random_uuid()")
_REPEATS = ("spark_", "lambda", "SELECT", " OVER ")
"""What may evaluate an argument more than once."""


def is_drawn(sql: str) -> bool:
    """Whether an expression of DuckDB draws a value, so that it must not stand twice for one value of the text."""
    return any(call in sql for call in _CALLS)


def calls(node: exp.Expression) -> Iterator[tuple[exp.Expression, str]]:
    """The calls in a tree that draw a value, and their names."""
    for call in node.find_all(exp.Anonymous, exp.Rand):
        name = call.name.lower() if isinstance(call, exp.Anonymous) else "rand"
        if name in NAMES:
            yield call, name


def drawn_twice(node: exp.Expression) -> tuple[exp.Expression, str] | None:
    """The first part of a tree whose first operand Spark draws twice inside of CASE, such as once for a test and once for the
    value, and its name; None if there is none."""
    for part in node.find_all(exp.Anonymous, exp.Between):
        call = isinstance(part, exp.Anonymous)
        name, operands = (part.name.lower(), peek(part, "expressions")) if call else ("between", [peek(part, "this")])
        if name in _TWICE and operands and next(calls(operands[0]), None) is not None:
            return part, name
    return None


def check_condition(node: exp.Expression, text: Text) -> None:
    """Refuses functions that draw values in what chooses rows."""
    for call, name in calls(node):
        text.refuse(call, f"{name} {CHOOSES_NO_ROWS}", cure=CURE)


def once(sql: str, variable: str, made: str) -> str | None:
    """The expression `made` of DuckDB, in which `variable` stands for the value of `sql`, which is drawn once; None if DuckDB
    has no such expression."""
    if made.count(variable) < 2 and not any(one in made for one in _REPEATS):
        return made.replace(variable, sql)
    if "SELECT" in made or " OVER " in made:
        return None
    return f"list_transform([{sql}], lambda {variable}: {made})[1]"


def converted(sql: str, conversion: Callable[[str], str | None]) -> str | None:
    """A conversion of an expression, which is drawn once; None if there is none."""
    if not is_drawn(sql):
        return conversion(sql)
    made = conversion(variable(0))
    return made and once(sql, variable(0), made)


def variable(number: int) -> str:
    """A name that stands for a drawn value."""
    return f"drawn_{number}_"
