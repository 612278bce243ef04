"""The translator of the expressions of one place in a text: the names and calls that the place allows, conversions of types, and
drawn values, such as rand(), which differ each time. A drawn value may be computed, but chooses no rows of a change.

DuckDB draws as often as a call stands in its SQL, and a macro repeats its arguments. So where a translation needs a drawn
value more than once, or hands it to a macro, the value becomes the variable of a lambda over an array that holds it alone.
"""

from __future__ import annotations

import datetime as dt
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, NoReturn, Protocol

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.casts import cast, unfit
from lsmlake.dialect.failures import TRY
from lsmlake.dialect.scope import Scope, ScopeColumn, Typed
from lsmlake.dialect.sql_text import Text, peek
from lsmlake.dialect.sql_types import BOOLEAN, DATE, NULL, STRING, TIMESTAMP, common, duck_name, is_dated, is_number
from lsmlake.errors import Wording
from lsmlake.types.intervals import is_interval
from lsmlake.types.type_text import format_type


class Inner(NamedTuple):
    """A translated query in an expression: its SQL, the types of its columns, the number of expressions in its GROUP BY (None: it
    has no groups), the columns of the query around it that it names, and `queries.Query.member`."""

    sql: str
    types: list[pa.DataType]
    keys: int | None
    used: tuple[ScopeColumn, ...]
    member: Callable[[], str | None] | None = None


Subquery = Callable[[exp.Expression, Scope], Inner]
ON, SORTED = "ON", "ORDER BY"
"""Places in which Spark does not take every kind of query."""
_DAYS = {"now": "", "today": "", "yesterday": "- 1", "tomorrow": "+ 1"}
"""Words that a literal of a date or timestamp may be -> the days from today."""
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


class Grouped(Protocol):
    """The groups of a SELECT, as expressions over them see them: `grouping.Groups`."""

    before: Context
    keys: Mapping[str, Typed]
    sets: object

    def found(self, node: exp.Expression) -> Typed | None:
        """The column of an expression that is one of GROUP BY; None for others."""

    def aggregate(self, node: exp.Expression, translated: Callable[[Context], Typed]) -> Typed:
        """The column of an aggregate of the rows of each group. `translated`: the aggregate over the rows."""

    def grouping(self, node: exp.Anonymous, name: str) -> Typed:
        """`grouping` and `grouping_id`: which expressions of GROUP BY are not in the grouping set of a group."""


_STATEMENT = Wording(
    "write the statement in lake.sql, whose conditions can hold queries",
    command="write the statement in `lsmlake sql`, whose conditions can hold queries",
    sql="leave the query out, or join its rows",
)


def refuse_query(text: Text, node: exp.Expression) -> NoReturn:
    """Refuses a query where none is allowed, as in the argument `where` of a method."""
    text.refuse(node, "a query is not supported here", cure=_STATEMENT)


@dataclass(frozen=True)
class Context(ABC):
    """A place of a text that holds expressions.

    Attributes:
        text: The text, for errors.
        scope: The columns that an expression can name.
        subquery: Translates a query inside an expression. None: it is refused.
        aggregates: Whether aggregate functions are allowed here.
        windows: Whether window functions are allowed here.
        draws: Whether functions such as rand() are allowed here.
        drawn: The translations of drawn values, by the id of the node.
        now: The time of the statement as a literal of DuckDB; None: current_timestamp is refused.
        aliases: Names that SELECT gives to expressions, in lower case; a column of that name comes first. None: ambiguous.
        first: As `aliases`, but these names come before columns: ORDER BY sorts the output.
        named_windows: The windows of the clause WINDOW, by name in lower case.
        groups: The groups that the expression is over; `scope` has their columns. None: it is over rows.
        late: Whether the clause follows SELECT, so that an alias may name a column that the groups do not have.
        place: The clause, if it is ON or ORDER BY.
    """

    text: Text
    scope: Scope
    subquery: Subquery | None = None
    aggregates: bool = False
    windows: bool = False
    now: str | None = None
    aliases: Mapping[str, Typed | None] = field(default_factory=dict)
    first: Mapping[str, Typed] = field(default_factory=dict)
    named_windows: Mapping[str, exp.Window] = field(default_factory=dict)
    groups: Grouped | None = None
    late: bool = False
    place: str = ""
    draws: bool = False
    drawn: Mapping[int, Typed] = field(default_factory=dict)

    @property
    def filters(self) -> bool:
        """Whether the place is a condition on rows, such as WHERE, in which null is as good as false."""
        return not self.windows

    @abstractmethod
    def typed(self, node: exp.Expression) -> Typed:
        """The translation of an expression."""

    def inside(self, scope: Scope) -> Context:
        """The place of the body of a lambda."""
        return replace(self, scope=scope, subquery=None, aggregates=False, windows=False, groups=None)

    def plain(self) -> Context:
        """The same place without aggregate and window functions."""
        return replace(self, aggregates=False, windows=False)

    def query(self, node: exp.Expression, query: exp.Expression) -> tuple[str, list[pa.DataType]]:
        """A query inside the expression `node`, and the types of its columns. Refuses it where none is allowed."""
        return self.inner(node, query)[:2]

    def inner(self, node: exp.Expression, query: exp.Expression) -> Inner:
        """As `query`, with all that is known of the query."""
        if self.subquery is None:
            refuse_query(self.text, node)
        scope = replace(self.scope, outer=None)  # Spark knows one level of correlation
        if self.groups is not None and not self.late:  # Spark has no such queries beside aggregates
            scope = replace(scope, relations=(), plain=())
        inner = self.subquery(query, scope)
        self._check(node, inner)
        return inner

    def _check(self, node: exp.Expression, inner: Inner) -> None:
        """Refuses expressions that Spark refuses, or for which Spark's answer differs from the SQL standard."""
        tests = isinstance(node, (exp.In, exp.Exists))
        cure = "join the query in FROM, or name it with WITH"
        if self.place == SORTED and (tests or inner.used):
            self.text.refuse(node, "ORDER BY takes no such query", cure="make it a column of SELECT in a query inside")
        if self.place == ON and self._has_both_sides(node, inner):
            self.text.refuse(node, "a query in ON can name columns of one side of the join only", cure="write it in WHERE")
        if inner.used and tests and inner.keys == 0:
            what = "Spark does not see the row that an aggregate gives of no rows in EXISTS and IN of a correlated query"
            self.text.refuse(node, what, cure="compare the aggregate with a value")
        if any(pa.types.is_map(column.type) for column in inner.used):
            self.text.refuse(node, "a query cannot name a MAP of the query around it", cure=cure)
        if inner.used and not tests and inner.keys:
            self.text.refuse(node, "a correlated query that is a value takes no GROUP BY", cure=cure)

    def _has_both_sides(self, node: exp.Expression, inner: Inner) -> bool:
        """Whether a query in ON, or the value that IN looks for in it, has columns of both sides of the join."""
        looked_for = node.this.find_all(exp.Column) if isinstance(node, exp.In) else ()
        named = [column for one in looked_for for column, _ in self.scope.found([part.name for part in one.parts])]
        right = {column.sql for column in self.scope.relations[-1].columns}
        return len({column.sql in right for column in (*inner.used, *named)}) > 1

    def operand(self, node: exp.Expression, wanted: pa.DataType, any_text: bool = False) -> str:
        """The node as an operand of exactly this type. `any_text`: Spark makes text of other types here."""
        made = self.typed(node)
        if wanted == STRING and any_text and made.type != STRING:
            return self.converted(node, made, STRING)
        if made.type in (wanted, NULL):
            return cast(made.sql, made.type, wanted)
        cure = "write a comparison" if wanted == BOOLEAN else f"write CAST(... AS {format_type(wanted)})"
        self.text.refuse(node, f"expected {format_type(wanted)}", found=format_type(made.type), cure=cure)

    def converted(
        self, node: exp.Expression, made: Typed, wanted: pa.DataType, *, safe: bool = False, explicit: bool = False
    ) -> str:
        """An expression cast to another type. Refuses casts that are not supported.

        Args:
            node: the expression in the text.
            made: the expression.
            wanted: the type.
            safe: null where Spark would raise an error.
            explicit: the text has the cast. Others never make intervals of numbers, numbers of intervals, intervals shorter, or
                text of nested values.
        """
        literal = self._time_literal(node, wanted) if made.type == STRING and is_dated(wanted) else None
        if literal is None and not safe and (explicit or made.type == STRING) and (reason := unfit(node, wanted)) is not None:
            self.text.wrong(node, reason, found="", cure=TRY if explicit else "correct the literal")
        sql = literal
        if sql is None and (explicit or _is_implicit(made.type, wanted)):
            sql = converted_once(made.sql, partial(cast, kind=made.type, wanted=wanted, safe=safe))
        if sql is None:
            what = f"a value of type {format_type(made.type)} cannot become {format_type(wanted)} here"
            self.text.refuse(node, what, cure="cast it otherwise")
        return sql

    def _time_literal(self, node: exp.Expression, wanted: pa.DataType) -> str | None:
        """A literal like '1994-01-01' or 'today', or a cast of it, as a constant; None for other text. DuckDB does not prune row
        groups by a conversion that may raise an error."""
        literal = node.this if isinstance(node, exp.Cast) else node
        if not (isinstance(literal, exp.Literal) and literal.is_string):
            return None
        if wanted == DATE and _ISO_DATE.fullmatch(literal.this):
            return _date(literal.this)
        word = literal.this.strip().lower()
        if word == "epoch":
            return f"CAST(make_timestamptz(0) AS {duck_name(wanted)})"
        if word not in _DAYS:
            return None
        if self.now is None:
            self.text.refuse(node, "the current time is not supported here", cure="write the time as a literal")
        moment = f"CAST({self.now} AS TIMESTAMP WITH TIME ZONE)"
        if word != "now":
            moment = f"CAST({moment} AS DATE) {_DAYS[word]}"
        return cast(f"({moment})", TIMESTAMP if word == "now" else DATE, wanted)

    def unified(self, nodes: Sequence[exp.Expression], typed: Sequence[Typed]) -> tuple[list[str], pa.DataType]:
        """Expressions cast to their common type. Refuses types that have none."""
        kind: pa.DataType | None = NULL
        for node, made in zip(nodes, typed, strict=True):
            kind, before = common(kind, made.type), kind
            if kind is None:
                types = f"{format_type(before)} and {format_type(made.type)}"
                self.text.refuse(node, "the types do not fit together", found=types, cure="cast one of them")
        return [self.converted(node, made, kind) for node, made in zip(nodes, typed, strict=True)], kind


def _is_implicit(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark converts a value where the text has no cast. It makes no text of nested values, no times of seconds, and few
    intervals."""
    seconds = TIMESTAMP in (kind, wanted) and (is_number(kind) or is_number(wanted))
    if seconds or (pa.types.is_nested(kind) and wanted == STRING):
        return False
    if not (is_interval(kind) or is_interval(wanted)) or NULL in (kind, wanted):
        return True
    return wanted == STRING if not is_interval(wanted) else is_interval(kind) and kind.with_(wanted) == wanted


def _date(iso: str) -> str | None:
    try:
        return f"CAST('{dt.date.fromisoformat(iso)}' AS DATE)"
    except ValueError:
        return None


# -- values that are drawn ------------------------------------------------------------------------------------------------

DRAWING = frozenset(
    ("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id", "spark_partition_id")
) | {"input_file_name", "input_file_block_start", "input_file_block_length"}
"""Functions of Spark that give another value each time, or depend on how rows are read."""
CHOOSES_NO_ROWS = "cannot choose rows: a condition must give the same each time"
COMPUTED_FIRST = "compute it into a column first"
"""The error for a condition that calls a drawing function (after the function's name), and its cure."""
_TWICE = "nullif", "nullifzero", "between"
_CALLS = ("random()", "gen_random_uuid()")
_REPEATS = ("spark_", "lambda", "SELECT", " OVER ")
"""What may evaluate an argument more than once."""


def is_drawn(sql: str) -> bool:
    """Whether an expression of DuckDB draws a value, so that it must not stand twice for one value of the text."""
    return any(call in sql for call in _CALLS)


def drawing_calls(node: exp.Expression) -> Iterator[tuple[exp.Expression, str]]:
    """The calls in a tree that draw a value, and their names."""
    for call in node.find_all(exp.Anonymous, exp.Rand):
        name = call.name.lower() if isinstance(call, exp.Anonymous) else "rand"
        if name in DRAWING:
            yield call, name


CURRENT = frozenset(("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"))
"""Functions that give the time of the statement, and are called without parentheses, too."""
_CURRENT_CALLS = CURRENT | {"curdate", "now"}


def current_times(node: exp.Expression) -> Iterator[exp.Expression]:
    """The parts of a tree that mean the time of the statement: calls, names of functions without parentheses, which may also be
    columns, and literals such as DATE'today'."""
    for part in node.find_all(exp.Anonymous, exp.Column, exp.Cast):
        if isinstance(part, exp.Anonymous):
            is_one = part.name.lower() in _CURRENT_CALLS or (part.name.lower() == "unix_timestamp" and not part.expressions)
        elif isinstance(part, exp.Column):
            is_one = len(part.parts) == 1 and not part.this.quoted and part.name.lower() in CURRENT
        else:
            dated = part.to.is_type(*exp.DataType.TEMPORAL_TYPES)
            is_one = dated and part.this.is_string and part.this.name.strip().lower() in _DAYS
        if is_one:
            yield part


def drawn_twice(node: exp.Expression) -> tuple[exp.Expression, str] | None:
    """The first part of a tree whose first operand Spark draws twice inside of CASE, such as once for a test and once for the
    value, and its name; None if there is none."""
    for part in node.find_all(exp.Anonymous, exp.Between):
        call = isinstance(part, exp.Anonymous)
        name, operands = (part.name.lower(), peek(part, "expressions")) if call else ("between", [peek(part, "this")])
        if name in _TWICE and operands and next(drawing_calls(operands[0]), None) is not None:
            return part, name
    return None


def check_condition(node: exp.Expression, text: Text) -> None:
    """Refuses functions that draw random values in a condition that chooses rows."""
    for call, name in drawing_calls(node):
        text.refuse(call, f"{name} {CHOOSES_NO_ROWS}", cure=COMPUTED_FIRST)


def once(sql: str, variable: str, made: str) -> str | None:
    """The expression `made` of DuckDB, in which `variable` stands for the value of `sql`, which is drawn once; None if DuckDB
    has no such expression."""
    if made.count(variable) < 2 and not any(one in made for one in _REPEATS):
        return made.replace(variable, sql)
    if "SELECT" in made or " OVER " in made:
        return None
    return f"list_transform([{sql}], lambda {variable}: {made})[1]"


def converted_once(sql: str, conversion: Callable[[str], str | None]) -> str | None:
    """The conversion of an expression whose value is drawn once; None if there is no such conversion."""
    if not is_drawn(sql):
        return conversion(sql)
    made = conversion(variable(0))
    return made and once(sql, variable(0), made)


def variable(number: int) -> str:
    """A name that stands for a drawn value."""
    return f"drawn_{number}_"
