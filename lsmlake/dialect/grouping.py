"""GROUP BY: the expressions that rows are grouped by, grouping sets, and what expressions over groups can name.

A SELECT that groups is two queries of DuckDB. The inner one gives a row per group, with the expressions of GROUP BY (`g0`, ...)
and the aggregates (`a0`, ...) as columns; the outer one evaluates all other expressions over these columns. So an expression
over groups sees nothing else, and windows, HAVING and ORDER BY come after the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, product

from sqlglot import exp

from lsmlake.dialect.aggregates import AGGREGATES, GROUPING
from lsmlake.dialect.context import Context
from lsmlake.dialect.scope import Scope, ScopeColumn, Typed
from lsmlake.dialect.sql_types import BIGINT, TINYINT, duck_name, one_zero, quoted
from lsmlake.types.spelling import spelled

Keys = tuple[exp.Expression, ...]
_NOT_KEYS = exp.Query, exp.Window, exp.Lambda
_COMMUTE = exp.Add, exp.Mul, exp.EQ, exp.And, exp.Or


@dataclass
class SelectGroups:
    """The groups of one SELECT.

    Attributes:
        before: translates expressions over the rows that are grouped.
        name: the relation of the groups.
        keys: the SQL of an expression of GROUP BY -> the column of the groups.
        sets: the grouping sets, each as SQL of keys; None: GROUP BY has no sets.
        calls: the SQL of an aggregate -> its column.
        fixed: the only aggregates allowed, as in an ORDER BY where Spark takes no others; None: all are allowed.
    """

    before: Context
    name: str
    keys: dict[str, Typed] = field(default_factory=dict)
    sets: list[list[str]] | None = None
    calls: dict[str, Typed] = field(default_factory=dict)
    fixed: frozenset[str] | None = None

    def key(self, node: exp.Expression) -> Typed:
        """The column of an expression of GROUP BY."""
        self._own(node, "GROUP BY")
        return self.column(self._ordered(node))

    def column(self, made: Typed | ScopeColumn) -> Typed:
        """The column of a translated expression, or of a column, of GROUP BY."""
        column = Typed(f"{self.name}.{quoted(f'g{len(self.keys)}')}", made.type, known=made.known)
        return self.keys.setdefault(made.sql, column)

    def _own(self, node: exp.Expression, what: str) -> None:
        """Refuses columns of the query around this one."""
        for name in node.find_all(exp.Column):
            path = [part.name for part in name.parts if isinstance(part, exp.Identifier)]
            if path and not self.before.scope.own(path) and self.before.scope.found(path):
                what = f"{what} in a query inside takes no columns of the query around it"
                self.before.text.refuse(name, what, cure="join the query in FROM")

    def found(self, node: exp.Expression) -> Typed | None:
        """The column of an expression that is one of GROUP BY; None for others."""
        if self.fixed is not None and not isinstance(node, exp.Column):
            return None
        if not self.keys or _calls(node) or node.find(*_NOT_KEYS) or not all(map(self._is_column, node.find_all(exp.Column))):
            return None
        return self.keys.get(self._ordered(node).sql)

    def _ordered(self, node: exp.Expression) -> Typed:
        """Translates an expression with the operands of commuting operators in one order: `b + a` is the same key as `a + b`."""
        made = self.before.typed(node)
        if node.find(*_COMMUTE) is None:
            return made
        copy = exp.Paren(this=node.copy())
        for one in list(copy.find_all(*_COMMUTE)):
            left, right = one.this, one.expression
            if spelled(left).lower() > spelled(right).lower():
                one.set("this", right)
                one.set("expression", left)
        return self.before.typed(copy.this)

    def _is_column(self, node: exp.Column) -> bool:
        """Whether a name means a column of the rows, rather than an alias of SELECT or a parameter of a lambda."""
        path = [part.name for part in node.parts if isinstance(part, exp.Identifier)]
        return bool(path) and bool(self.before.scope.found(path))

    def aggregate(self, node: exp.Expression, translated: Callable[[Context], Typed]) -> Typed:
        """The column of an aggregate of the rows of each group. `translated`: the aggregate over the rows."""
        self._own(node, "an aggregate function")
        made = translated(self.before)
        if self.fixed is not None and made.sql not in self.fixed:
            what = "Spark has no such aggregate in ORDER BY beside HAVING, and none beside windows"
            self.before.text.refuse(node, what, cure="give the aggregate a name in SELECT, and order by that")
        return self.call(made)

    def call(self, made: Typed) -> Typed:
        """The column of a call over the rows of each group."""
        column = Typed(f"{self.name}.{quoted(f'a{len(self.calls)}')}", made.type)
        return self.calls.setdefault(made.sql, column)

    def grouping(self, node: exp.Anonymous, name: str) -> Typed:
        """`grouping(key)`, or `grouping_id(keys)`: which keys are not in the grouping set of a group."""
        text, nodes = self.before.text, node.expressions
        if self.sets is None:
            text.refuse(node, f"{name} needs GROUPING SETS, ROLLUP or CUBE", cure="add one of them to GROUP BY")
        made = [self.before.typed(one) for one in nodes]
        sqls = [one.sql for one in made] if nodes else list(self.keys)
        if name == "grouping" and (len(nodes) != 1 or sqls[0] not in self.keys):
            text.refuse(node, "grouping takes one expression of GROUP BY", cure="name one expression of GROUP BY")
        if name == "grouping_id" and sqls != list(self.keys):
            text.refuse(node, "grouping_id takes all columns of GROUP BY in their order, or none", cure="write grouping_id()")
        kind = TINYINT if name == "grouping" else BIGINT
        keys = ", ".join(one_zero(sql, self.keys[sql].type) for sql in sqls)
        return self.call(Typed(f"CAST(grouping_id({keys}) AS {duck_name(kind)})", kind))

    @property
    def scope(self) -> Scope:
        """The columns that groups have."""

        def of(column: ScopeColumn) -> ScopeColumn | None:
            key = self.keys.get(column.sql)
            return None if key is None else replace(column, sql=key.sql)

        return self.before.scope.mapped(of)

    def sql(self, source: str) -> str:
        """The query that gives the groups. `source`: FROM and WHERE."""
        keys = {sql: one_zero(sql, column.type) for sql, column in self.keys.items()}
        columns = [(keys.get(sql, sql), column) for sql, column in (*self.keys.items(), *self.calls.items())]
        columns = columns or [("count(*)", Typed(f"{self.name}.{quoted('a0')}", None))]
        listed = ", ".join(f"{sql} AS {column.sql.partition('.')[2]}" for sql, column in columns)
        made = f"SELECT {listed}{source}"
        if self.sets is not None:  # without rows there is no group, not even that of the empty set
            sets = ", ".join(f"({', '.join(keys[sql] for sql in one)})" for one in self.sets)
            return f"{made} GROUP BY GROUPING SETS ({sets}) HAVING count(*) > 0"
        return f"{made} GROUP BY {', '.join(keys.values())}" if keys else made


def aggregates(node: exp.Expression) -> bool:
    """Whether an expression contains an aggregate over a group. Those of windows and of queries inside do not count."""
    return any(call.name.lower() in (*AGGREGATES, *GROUPING) for call in _calls(node))


def _calls(node: exp.Expression) -> list[exp.Anonymous]:
    """The calls of aggregates in an expression that are not those of windows."""
    calls, waiting = [], [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, exp.Query):
            continue
        if isinstance(one, exp.Window):
            called = dict.get(one.args, "this")
            while isinstance(called, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)):
                waiting += [part for part in called.iter_expressions() if part is not dict.get(called.args, "this")]
                called = dict.get(called.args, "this")
            waiting += [part for part in one.iter_expressions() if part is not dict.get(one.args, "this")]
            waiting += called.iter_expressions()
            continue
        if isinstance(one, exp.Anonymous) and str(dict.get(one.args, "this")).lower() in (*AGGREGATES, *GROUPING):
            calls.append(one)
        waiting += one.iter_expressions()
    return calls


def grouped(
    groups: SelectGroups, group: exp.Group, items: Sequence[exp.Expression], item_of: Callable[[exp.Expression], exp.Expression]
) -> None:
    """Reads the clause GROUP BY.

    Args:
        groups: gets the keys and the sets.
        group: the clause.
        items: its items.
        item_of: gives the expression that an item stands for, such as the one of SELECT that a number means.
    """
    sets, plain = [], []
    for item in items:
        item_sets = _sets(groups, item)
        plain += [item] if item_sets is None else []
        sets.append([(item,)] if item_sets is None else item_sets)
    for name, made in (("rollup", _prefixes), ("cube", _subsets)):
        if clauses := group.args.get(name):  # GROUP BY a, b WITH ROLLUP
            _read_empty(groups, clauses)
            sets = [made([(item,) for item in plain])]
    if clauses := group.args.get("grouping_sets"):  # GROUP BY a, b GROUPING SETS ((a), (b))
        for item in plain:
            groups.key(item_of(item))
        sets = [_sets(groups, one) for one in clauses]
    several = any(len(one) > 1 for one in sets) or len(plain) < len(items) or bool(group.args.get("grouping_sets"))
    listed = [tuple(chain.from_iterable(one)) for one in product(*sets)]
    sqls = {id(item): _sql(groups, item_of(item)) for item in chain.from_iterable(listed)}
    if several:
        groups.sets = [list(dict.fromkeys(sqls[id(item)] for item in one)) for one in listed]


def _sql(groups: SelectGroups, node: exp.Expression) -> str:
    column = groups.key(node)
    return next(sql for sql, one in groups.keys.items() if one is column)


def _sets(groups: SelectGroups, item: exp.Expression) -> list[Keys] | None:
    """The grouping sets of ROLLUP, CUBE and GROUPING SETS; None for a plain expression."""
    match item:
        case exp.Rollup():
            return _prefixes(_elements(groups, item))
        case exp.Cube():
            return _subsets(_elements(groups, item))
        case exp.GroupingSets():
            sets: list[Keys] = []
            for part in item.expressions:
                inner = None if isinstance(part, exp.Tuple) else _sets(groups, part)
                sets += [_element(part)] if inner is None else inner
            return sets
        case exp.Tuple() if not item.expressions:
            groups.before.text.refuse(item, "an empty list of columns stands only in GROUPING SETS", cure="name a column")
    return None


def _elements(groups: SelectGroups, item: exp.Rollup | exp.Cube) -> list[Keys]:
    elements = [_element(part) for part in item.expressions]
    if () in elements:
        groups.before.text.refuse(item, "an empty list of columns stands only in GROUPING SETS", cure="name a column")
    return elements


def _element(part: exp.Expression) -> Keys:
    """The columns of one item; columns in parentheses belong together."""
    return tuple(part.expressions) if isinstance(part, exp.Tuple) else (part.this if isinstance(part, exp.Paren) else part,)


def _prefixes(elements: Sequence[Keys]) -> list[Keys]:
    return [tuple(chain.from_iterable(elements[:length])) for length in range(len(elements), -1, -1)]


def _subsets(elements: Sequence[Keys]) -> list[Keys]:
    lengths = range(len(elements), -1, -1)
    return [tuple(chain.from_iterable(one)) for length in lengths for one in combinations(elements, length)]


def _read_empty(groups: SelectGroups, clauses: list[exp.Expression]) -> None:
    """Refuses columns in WITH ROLLUP and WITH CUBE."""
    for one in clauses:
        if one.expressions:
            groups.before.text.refuse(one, "WITH ROLLUP and WITH CUBE take no columns", cure="write ROLLUP (a, b)")
