"""ORDER BY, LIMIT and OFFSET of a query, over its output and hidden columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.context import SORTED, Context
from lsmlake.dialect.scope import Scope, Typed
from lsmlake.dialect.sql_text import Text, peek
from lsmlake.dialect.sql_types import quoted
from lsmlake.dialect.windows import ordered, sortable


@dataclass(frozen=True)
class OutputColumn:
    """A column of the result of a query: `made` gives its values. `named`: expressions of ORDER BY can name it."""

    name: str
    made: Typed
    named: bool


@dataclass
class Sorting:
    """ORDER BY over the relation `name`, whose columns are the outputs and `hidden`, which are named `#s0`, `#s1`, ..."""

    name: str
    items: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)

    def output(self, number: int) -> str:
        return f"{self.name}.{quoted(f'#{number}')}"

    def add(self, ordered: str, node: exp.Expression, item: exp.Expression, made: Typed, sql: str) -> None:
        """Adds an item of ORDER BY of the query `node`: the expression `sql` with its direction."""
        if not self.items and peek(node, "limit") is not None and peek(item, "nulls_first") and pa.types.is_string(made.type):
            # the filter that DuckDB 2.0 makes of the rows found so far gives nulls for text that Parquet stores plain
            self.items.append(f"{sql} IS NOT NULL")
        self.items.append(ordered)

    def hide(self, sql: str) -> str:
        self.hidden.append(sql)
        return f"{self.name}.{quoted(f'#s{len(self.hidden) - 1}')}"


def by_name(outputs: Sequence[OutputColumn]) -> dict[str, Typed | None]:
    """The outputs by the names that ORDER BY can use, in lower case; None for a name that several outputs have."""
    counts = Counter(one.name.lower() for one in outputs if one.named)
    return {one.name.lower(): one.made if counts[one.name.lower()] == 1 else None for one in outputs if one.named}


def sorting(context: Context, node: exp.Expression, outputs: Sequence[OutputColumn], name: str, over: Scope | None) -> Sorting:
    """Reads ORDER BY of a query.

    Args:
        context: translates expressions in the place of the outputs.
        node: the query.
        outputs: the columns of its result.
        name: the relation of the result.
        over: the result as a scope, if ORDER BY can name nothing else; None: it can also name what the outputs can name.
    """
    made, order = Sorting(name), node.args.get("order")
    if order is None:
        return made
    first = {known: one for known, one in by_name(outputs).items() if one is not None}
    numbers = {one.name.lower(): place for place, one in enumerate(outputs) if one.name.lower() in first and one.named}
    by_sql = {one.made.sql: place for place, one in enumerate(outputs)}
    inside = replace(context, first=first, place=SORTED)
    for item in order.expressions:
        what = item.this if isinstance(item, exp.Ordered) else item
        if isinstance(what, exp.Var) and what.name.upper() == "ALL":
            for place, one in enumerate(outputs):
                made.add(ordered(context, item, made.output(place)), node, item, one.made, made.output(place))
            continue
        place = ordinal(context.text, what, len(outputs))
        if place is None and isinstance(what, exp.Column) and not what.table:
            place = numbers.get(what.name.lower())
        value = outputs[place].made if place is not None else inside.typed(what)
        place = by_sql.get(value.sql) if place is None else place
        if place is not None:
            sql = made.output(place)
        elif over is not None:
            value = replace(context, scope=over, groups=None, aliases={}, windows=False, aggregates=False).typed(what)
            sql = value.sql
        else:
            sql = made.hide(value.sql)
        made.add(ordered(context, item, sql), node, item, sortable(context, what, value), sql)
    return made


def ordinal(text: Text, item: exp.Expression, count: int) -> int | None:
    """The place of the column of SELECT that a number names; None for other expressions."""
    if isinstance(item, exp.Neg) and isinstance(item.this, exp.Literal) and item.this.this.isdecimal():
        text.refuse(
            item, "there is no such column in SELECT", expected=f"1 to {count}", cure="give the number of a column of SELECT"
        )
    if not (isinstance(item, exp.Literal) and not item.is_string and item.this.isdecimal()):
        return None
    if not 1 <= int(item.this) <= count:
        text.refuse(
            item, "there is no such column in SELECT", expected=f"1 to {count}", cure="give the number of a column of SELECT"
        )
    return int(item.this) - 1


def limits(text: Text, node: exp.Expression) -> str:
    """LIMIT and OFFSET of a query."""
    made = ""
    for name, word in (("limit", "LIMIT"), ("offset", "OFFSET")):
        if (clause := node.args.get(name)) is not None and not is_all(clause):
            made += f" {word} {limit_number(text, clause)}"
    return made


def limit_number(text: Text, clause: exp.Expression) -> int:
    """The number of LIMIT or OFFSET."""
    value = clause.expression
    if not (isinstance(value, exp.Literal) and not value.is_string and value.this.isdecimal()):
        text.refuse(clause, "LIMIT and OFFSET take a number", cure="write a whole number from 0")
    return int(value.this)


def is_all(clause: exp.Expression) -> bool:
    """Whether the clause is LIMIT ALL."""
    value = clause.expression
    return isinstance(value, (exp.Column, exp.Var)) and value.name.upper() == "ALL"


def of_outputs(columns: Sequence[tuple[str, pa.DataType]], relation: str) -> list[OutputColumn]:
    """The columns of a whole query that is the relation of this name."""
    return [OutputColumn(name, Typed(f"{relation}.{quoted(f'#{i}')}", kind), True) for i, (name, kind) in enumerate(columns)]
