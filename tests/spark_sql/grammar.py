"""Random statements of Spark SQL from a grammar, over the tables t, u and r of `TABLES`. A seed decides.

Every expression has a type, so that most statements are valid. Few fail on a value: Spark and this process may leave out
different parts of a statement whose values nobody needs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

INT, BIGINT, DOUBLE, DECIMAL, STRING, BOOL, DATE, ARRAY = (
    "int",
    "bigint",
    "double",
    "decimal",
    "string",
    "boolean",
    "date",
    "array",
)
PLAIN = (INT, BIGINT, DOUBLE, DECIMAL, STRING, BOOL, DATE)
TABLES = {
    "t": {"id": INT, "g": STRING, "n": INT, "v": BIGINT, "w": DOUBLE, "c": DECIMAL, "d": DATE, "b": BOOL, "a": ARRAY},
    "u": {"k": INT, "g": STRING, "x": INT, "d": DATE},
    "r": {"id": INT, "n": INT, "z": STRING},
}
"""Name -> column -> type. The first column of t and r is unique; k is not."""
_DEEP = 3


class Column(NamedTuple):
    sql: str
    type: str


Scope = Sequence[Column]


class Query(NamedTuple):
    """`columns`: name -> type."""

    sql: str
    columns: dict[str, str]


class Grammar:
    """Each method writes a text of what it is named after. `deep`: how many levels are around it."""

    def __init__(self, seed: int, prefix: str = "") -> None:
        """`prefix`: what stands before the name of a table."""
        self.dice, self.prefix = random.Random(seed), prefix
        self.number = 0
        self.ctes: dict[str, dict[str, str]] = {}

    def one(self, *choices: object) -> object:
        return self.dice.choice(choices)

    def made(self, *forms: Callable[[], str]) -> str:
        return self.dice.choice(forms)()

    def likely(self, share: float) -> bool:
        return self.dice.random() < share

    def name(self, start: str) -> str:
        self.number += 1
        return f"{start}{self.number}"

    # -- expressions --------------------------------------------------------------------------------------------------

    def expression(self, kind: str, scope: Scope, deep: int = 0) -> str:
        columns = [one.sql for one in scope if one.type == kind]
        if columns and self.likely(0.35 + 0.2 * deep):
            return str(self.one(*columns))
        if deep >= _DEEP:
            return str(self.one(*columns)) if columns else self.literal(kind)
        return getattr(self, f"_{kind}")(scope, deep + 1)

    def literal(self, kind: str) -> str:
        if self.likely(0.08):
            return {ARRAY: "CAST(NULL AS array<int>)", DECIMAL: "CAST(NULL AS decimal(10,2))"}.get(kind, f"CAST(NULL AS {kind})")
        number = self.dice.randint(-3, 9)
        return {
            INT: str(number),
            BIGINT: f"{number}L",
            DOUBLE: f"{number}.5D",
            DECIMAL: f"{number}.25BD",
            STRING: f"'{self.one('a', 'b', 'ab', '', 'B c', 'x_1')}'",
            BOOL: str(self.one("true", "false")),
            DATE: f"DATE '2026-0{self.dice.randint(1, 9)}-{self.dice.randint(10, 28)}'",
            ARRAY: f"array({number}, {self.dice.randint(0, 4)})",
        }[kind]

    def _either(self, kind: str, scope: Scope, deep: int) -> str:
        """What there is of every type."""
        a, b = (self.expression(kind, scope, deep) for _ in range(2))
        when = self.condition(scope, deep)
        return str(
            self.one(
                self.literal(kind),
                f"coalesce({a}, {b})",
                f"CASE WHEN {when} THEN {a} ELSE {b} END",
                f"CASE WHEN {when} THEN {a} END",
                f"if({when}, {a}, {b})",
                f"nullif({a}, {b})" if kind != ARRAY else a,
                f"greatest({a}, {b})" if kind not in (ARRAY, BOOL) else b,
                f"nvl2({a}, {b}, {a})",
            )
        )

    def _int(self, scope: Scope, deep: int) -> str:
        def some(kind: str) -> str:
            return self.expression(kind, scope, deep)

        return self.made(
            lambda: self._either(INT, scope, deep),
            lambda: f"({some(INT)} {self.one('+', '-', '*')} {some(INT)})",
            lambda: f"({some(INT)} % {self.divisor(scope, deep)})",
            lambda: f"-{some(INT)}",
            lambda: f"abs({some(INT)})",
            lambda: f"length({some(STRING)})",
            lambda: f"size({some(ARRAY)})",
            lambda: f"{self.one('year', 'month', 'day', 'dayofweek', 'weekofyear', 'quarter')}({some(DATE)})",
            lambda: f"datediff({some(DATE)}, {some(DATE)})",
            lambda: f"try_cast({some(STRING)} AS int)",
            lambda: f"try_cast({some(str(self.one(BIGINT, DOUBLE, DECIMAL)))} AS int)",
            lambda: f"CAST({some(BOOL)} AS int)",
            lambda: f"aggregate({some(ARRAY)}, 0, (x, y) -> x + y)",
            lambda: f"try_element_at({some(ARRAY)}, {self.one(1, -1, 2)})",
            lambda: f"size(filter({some(ARRAY)}, x -> x {self.one('>', '=', '<>')} {some(INT)}))",
            lambda: f"({some(INT)} {self.one('&', '|', '^')} ({some(INT)}))",  # Spark reads `| aggregate` as a pipe
            lambda: f"instr({some(STRING)}, {some(STRING)})",
            lambda: self.scalar(INT, scope, deep),
        )

    def divisor(self, scope: Scope, deep: int) -> str:
        return str(self.one(2, 3, -4, f"nullif({self.expression(INT, scope, deep)}, 0)"))

    def _bigint(self, scope: Scope, deep: int) -> str:
        return self.made(
            lambda: self._either(BIGINT, scope, deep),
            lambda: f"CAST({self.expression(INT, scope, deep)} AS bigint)",
            lambda: f"({self.expression(BIGINT, scope, deep)} {self.one('+', '-', '*')} {self.expression(INT, scope, deep)})",
            lambda: f"({self.expression(BIGINT, scope, deep)} DIV {self.one(2, 3)})",
        )

    def _double(self, scope: Scope, deep: int) -> str:
        number = self.one(INT, BIGINT, DOUBLE)
        return self.made(
            lambda: self._either(DOUBLE, scope, deep),
            lambda: f"({self.expression(number, scope, deep)} / {self.divisor(scope, deep)})",
            lambda: f"({self.expression(DOUBLE, scope, deep)} {self.one('+', '-', '*')} {self.expression(number, scope, deep)})",
            lambda: f"round({self.expression(DOUBLE, scope, deep)}, {self.one(0, 1, 2)})",
            lambda: f"sqrt(abs({self.expression(DOUBLE, scope, deep)}))",
        )

    def _decimal(self, scope: Scope, deep: int) -> str:
        a, b = (self.expression(DECIMAL, scope, deep) for _ in range(2))
        exact = self.made(
            lambda: a,
            lambda: f"({a} {self.one('+', '-')} {b})",
            lambda: self._either(DECIMAL, scope, deep),
            lambda: f"round({a}, 1)",
        )
        return f"CAST({exact} AS decimal(10,2))"

    def _string(self, scope: Scope, deep: int) -> str:
        def some(kind: str) -> str:
            return self.expression(kind, scope, deep)

        return self.made(
            lambda: self._either(STRING, scope, deep),
            lambda: f"concat({some(STRING)}, {some(STRING)})",
            lambda: f"({some(STRING)} || {some(self.one(STRING, INT, DATE))})",
            lambda: f"{self.one('upper', 'lower', 'trim', 'ltrim', 'reverse', 'initcap')}({some(STRING)})",
            lambda: f"substring({some(STRING)}, {self.one(1, 2, -1, 0)}, {self.one(1, 2)})",
            lambda: f"lpad({some(STRING)}, {self.one(2, 4)}, {self.one(repr('-'), repr('xy'), some(STRING))})",
            lambda: f"CAST({some(self.one(INT, BIGINT, DECIMAL, BOOL, DATE))} AS string)",
            lambda: f"date_format({some(DATE)}, '{self.one('yyyy-MM', 'dd/MM/yyyy', 'MMM d', 'E')}')",
            lambda: f"array_join(transform({some(ARRAY)}, x -> CAST(x AS string)), ',')",
            lambda: f"replace({some(STRING)}, 'a', {some(STRING)})",
            lambda: f"regexp_replace({some(STRING)}, '[a-b]+', '<$0>')",
            lambda: f"repeat({some(STRING)}, 2)",
        )

    def _date(self, scope: Scope, deep: int) -> str:
        day = self.expression(DATE, scope, deep)
        return str(
            self.one(
                self._either(DATE, scope, deep),
                f"date_add({day}, {self.one(1, -30, 365)})",
                f"({day} - {self.one(1, 7)})",
                f"add_months({day}, {self.one(1, -1, 12)})",
                f"trunc({day}, '{self.one('MM', 'YEAR', 'WEEK')}')",
                f"last_day({day})",
                f"CAST({day} + INTERVAL {self.one(1, 2)} {self.one('MONTH', 'DAY', 'YEAR')} AS date)",
            )
        )

    def _array(self, scope: Scope, deep: int) -> str:
        a, b = (self.expression(ARRAY, scope, deep) for _ in range(2))
        number = self.expression(INT, scope, deep)
        return str(
            self.one(
                self._either(ARRAY, scope, deep),
                f"array({number}, {self.expression(INT, scope, deep)})",
                f"transform({a}, x -> x {self.one('+', '*')} {number})",
                f"transform({a}, (x, i) -> x + i)",
                f"filter({a}, x -> x {self.one('>', '<', 'IS NOT DISTINCT FROM')} {number})",
                f"{self.one('sort_array', 'array_distinct', 'array_compact', 'reverse')}({a})",
                f"{self.one('array_union', 'array_except', 'array_intersect', 'concat')}({a}, {b})",
                f"zip_with({a}, {b}, (x, y) -> coalesce(x, 0) + coalesce(y, 0))",
                f"slice({a}, 1, {self.one(1, 2)})",
            )
        )

    def _boolean(self, scope: Scope, deep: int) -> str:
        return f"({self.condition(scope, deep)})"

    def condition(self, scope: Scope, deep: int = 0) -> str:
        kind = str(self.one(*PLAIN))

        def some(kind: str) -> str:
            return self.expression(kind, scope, deep + 1)

        if deep >= _DEEP:
            return f"{some(kind)} {self.one('=', '<', '>=', '<>', '<=>')} {some(kind)}"
        inner = deep + 1
        return self.made(
            lambda: f"{some(kind)} {self.one('=', '<', '>=', '<>', '<=>', '!=', '==')} {some(kind)}",
            lambda: f"{some(str(self.one(INT, BIGINT)))} {self.one('=', '<')} {some(str(self.one(DOUBLE, DECIMAL, INT)))}",
            lambda: f"{some(kind)} IS {self.one('', 'NOT ')}NULL",
            lambda: f"({some(kind)} IS {self.one('', 'NOT ')}DISTINCT FROM {some(kind)})",
            lambda: f"(NOT ({self.condition(scope, inner)}))",
            lambda: f"({self.condition(scope, inner)} {self.one('AND', 'OR')} {self.condition(scope, inner)})",
            lambda: f"({self.condition(scope, inner)}) IS {self.one('', 'NOT ')}{self.one('TRUE', 'FALSE', 'UNKNOWN')}",
            lambda: f"{some(kind)} {self.one('', 'NOT ')}IN ({some(kind)}, {self.literal(kind)}, {some(kind)})",
            lambda: f"{some(INT)} {self.one('', 'NOT ')}BETWEEN {some(INT)} AND {some(INT)}",
            lambda: f"{some(STRING)} {self.one('', 'NOT ')}{self.one('LIKE', 'ILIKE')} '{self.one('a%', '%b', '_', '%')}'",
            lambda: f"{some(STRING)} RLIKE '{self.one('^a', 'b|c', '[a-c]')}'",
            lambda: f"{self.one('exists', 'forall')}({some(ARRAY)}, x -> x > {some(INT)})",
            lambda: f"array_contains({some(ARRAY)}, {some(INT)})",
            lambda: f"{self.one('startswith', 'contains')}({some(STRING)}, {some(STRING)})",
            lambda: self.inside(scope, inner),
        )

    def inside(self, scope: Scope, deep: int) -> str:
        """A condition with a subquery."""
        kind, table = str(self.one(INT, STRING, DATE)), str(self.one(*TABLES))
        alias = self.name("i")
        theirs = columns_of(table, alias)
        own = [one for one in theirs if one.type == kind] or [Column(self.literal(kind), kind)]
        where = self.correlated(scope, theirs, deep)
        picked, value = self.one(*(one.sql for one in own)), self.expression(kind, scope, deep)
        negated = self.one("", "NOT ")
        return str(
            self.one(
                f"{value} {negated}IN (SELECT {picked} FROM {self.prefix}{table} {alias}{where})",
                f"{negated}EXISTS (SELECT 1 FROM {self.prefix}{table} {alias}{where})",
                f"({value}, {self.expression(INT, scope, deep)}) {negated}IN "
                f"(SELECT {picked}, {self.expression(INT, theirs, _DEEP)} FROM {self.prefix}{table} {alias})",
            )
        )

    def correlated(self, scope: Scope, theirs: Scope, deep: int) -> str:
        pairs = [(a.sql, b.sql) for a in scope for b in theirs if a.type == b.type != ARRAY and "." in a.sql]
        same = ["{} = {}".format(*self.dice.choice(pairs))] if pairs and self.likely(0.7) else []
        more = [self.condition(theirs, max(deep, _DEEP - 1))] if self.likely(0.5) else []
        return f" WHERE {' AND '.join([*same, *more])}" if same or more else ""

    def scalar(self, kind: str, scope: Scope, deep: int) -> str:
        table, alias = str(self.one(*TABLES)), self.name("s")
        theirs = columns_of(table, alias)
        value = self.expression(kind, theirs, _DEEP)
        return (
            f"(SELECT {self.one('max', 'min')}({value}) FROM {self.prefix}{table} {alias}{self.correlated(scope, theirs, deep)})"
        )

    # -- queries ------------------------------------------------------------------------------------------------------

    def statement(self) -> str:
        """A query. Its rows have no order, or a total one."""
        if self.likely(0.12):
            return self.pipe()
        found = self.query()
        if not self.likely(0.3) or ARRAY in found.columns.values():
            return found.sql
        items = ", ".join(f"{name}{self.one('', ' DESC', ' NULLS LAST', ' DESC NULLS FIRST')}" for name in found.columns)
        text = f"SELECT * FROM ({found.sql}) ORDER BY {items}"
        return (
            text + (f" LIMIT {self.dice.randint(0, 9)}" if self.likely(0.6) else "") + (" OFFSET 1" if self.likely(0.2) else "")
        )

    def query(self, deep: int = 0) -> Query:
        if deep < 2 and self.likely(0.2):
            return self.set_operation(deep + 1)
        if deep < 2 and self.likely(0.2):
            return self.with_cte(deep + 1)
        return self.grouped(deep) if self.likely(0.35) else self.select(deep)

    def set_operation(self, deep: int) -> Query:
        kinds = [str(self.one(*PLAIN)) for _ in range(self.dice.randint(1, 3))]
        a, b = self.select(deep, kinds), self.select(deep, kinds)
        word = self.one("UNION", "UNION ALL", "UNION DISTINCT", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL", "MINUS")
        return Query(f"{a.sql} {word} {b.sql}", a.columns)

    def with_cte(self, deep: int) -> Query:
        name, inner = self.name("q"), self.query(deep)
        self.ctes[name] = inner.columns
        outer = self.select(deep, table=name)
        del self.ctes[name]
        return Query(f"WITH {name} AS ({inner.sql}) {outer.sql}", outer.columns)

    def select(self, deep: int, kinds: Sequence[str] | None = None, table: str | None = None) -> Query:
        source, scope = self.source(deep, table)
        kinds = kinds or [str(self.one(*PLAIN, ARRAY)) for _ in range(self.dice.randint(1, 4))]
        items = [self.expression(kind, scope) for kind in kinds]
        columns: dict[str, str] = {self.name("c"): kind for kind in kinds}
        outputs = [f"{item} AS {name}" for item, name in zip(items, columns, strict=True)]
        if not (set(columns.values()) & {ARRAY}) and deep == 0 and self.likely(0.3):
            name = self.name("c")
            outputs.append(f"{self.window(scope)} AS {name}")
            columns[name] = INT
        distinct = "DISTINCT " if ARRAY not in kinds and self.likely(0.15) else ""
        where = f" WHERE {self.condition(scope)}" if self.likely(0.6) else ""
        return Query(f"SELECT {distinct}{', '.join(outputs)} FROM {source}{where}", columns)

    def window(self, scope: Scope) -> str:
        keys = ", ".join(f"{one.sql}{self.one('', ' DESC')}" for one in scope if one.type != ARRAY)
        number = next((one.sql for one in scope if one.type == INT), "1")
        part = f"PARTITION BY {self.expression(str(self.one(STRING, INT, BOOL)), scope, _DEEP - 1)} " if self.likely(0.7) else ""
        rows = self.one(
            "",
            " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
            " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
            " ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
            " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        )
        return self.made(
            lambda: f"{self.one('row_number()', 'rank()', 'dense_rank()', 'ntile(3)')} OVER ({part}ORDER BY {keys})",
            lambda: f"{self.one('lag', 'lead')}({number}, {self.one(1, 2)}) OVER ({part}ORDER BY {keys})",
            lambda: f"{self.one('first_value', 'last_value')}({number}) OVER ({part}ORDER BY {keys}{rows})",
            lambda: f"{self.one('max', 'min', 'count')}({number}) OVER ({part}ORDER BY {keys}{rows})",
            lambda: f"max({number}) OVER ({part}ORDER BY {number} RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
            lambda: f"count(*) OVER ({part.strip()})",
        )

    def grouped(self, deep: int) -> Query:
        source, scope = self.source(deep)
        kinds = [str(self.one(STRING, INT, BOOL, DATE)) for _ in range(self.dice.randint(0, 2))]
        found = {self.expression(kind, scope, 2): kind for kind in kinds}
        keys = [key for key in found if any(one.sql in key for one in scope)]  # a constant would be the number of a column
        names = [self.name("k") for _ in keys]
        outputs = [f"{key} AS {name}" for key, name in zip(keys, names, strict=True)]
        columns = {name: found[key] for name, key in zip(names, keys, strict=True)}
        for _ in range(self.dice.randint(1, 3)):
            name = self.name("m")
            outputs.append(f"{self.total(scope) if deep else self.aggregate(scope)} AS {name}")
            columns[name] = BIGINT
        where = f" WHERE {self.condition(scope)}" if self.likely(0.4) else ""
        group = ""
        if keys:
            listed = ", ".join(keys)
            sets = f"GROUPING SETS (({listed}), ({keys[0]}), ())"
            numbers = ", ".join(str(number) for number in range(1, len(keys) + 1))
            group = (
                f" GROUP BY {self.one(listed, listed, numbers, ', '.join(names), f'ROLLUP ({listed})', f'CUBE ({listed})', sets)}"
            )
        having = f" HAVING {self.one('count(*)', 'count(DISTINCT ' + scope[0].sql + ')')} > 1" if self.likely(0.2) else ""
        return Query(f"SELECT {', '.join(outputs)} FROM {source}{where}{group}{having}", columns)

    def total(self, scope: Scope) -> str:
        """An aggregate of type BIGINT."""
        number = self.expression(INT, scope, 2)
        return str(self.one("count(*)", f"count({number})", f"sum({number})", f"max(CAST({number} AS bigint))"))

    def aggregate(self, scope: Scope) -> str:
        number, any_ = self.expression(INT, scope, 2), self.expression(str(self.one(*PLAIN)), scope, 2)
        found = str(
            self.one(
                f"sum({self.expression(str(self.one(INT, BIGINT, DOUBLE, DECIMAL)), scope, 2)})",
                f"{self.one('min', 'max')}({any_})",
                f"avg({number})",
                "count(*)",
                f"count({any_})",
                f"count(DISTINCT {any_})",
                f"count(DISTINCT {any_}, {number})",
                f"sum(DISTINCT {number})",
                f"count_if({self.condition(scope, 2)})",
                f"{self.one('bool_and', 'bool_or', 'every', 'some')}({self.condition(scope, 2)})",
                f"size(collect_list({number}))",
                f"array_join(sort_array(collect_set({self.expression(STRING, scope, 2)})), '|')",
                f"stddev({number})",
                f"percentile({number}, 0.5)",
                f"try_sum({number})",
            )
        )
        filtered = found.startswith(("sum(", "count(", "max(", "avg(")) and self.likely(0.25)
        return f"{found} FILTER (WHERE {self.condition(scope, 2)})" if filtered else found

    # -- FROM ---------------------------------------------------------------------------------------------------------

    def source(self, deep: int, table: str | None = None) -> tuple[str, Scope]:
        text, scope, names = self.relation(deep, table)
        while self.likely(0.4) and len(scope) < 16:
            text, scope, names = self.join(text, scope, names, deep)
        if self.likely(0.08) and any(one.type == ARRAY for one in scope):
            name = self.name("e")
            array = next(one.sql for one in scope if one.type == ARRAY)
            text += f" LATERAL VIEW {self.one('', 'OUTER ')}explode({array}) {name} AS {name}_x"
            scope = [*scope, Column(f"{name}.{name}_x", INT)]
        return text, scope

    def relation(self, deep: int, table: str | None = None) -> tuple[str, Scope, dict[str, str]]:
        """Its text, its columns, and name -> type of those that USING may name."""
        if table is None and deep < 2 and self.likely(0.2):
            found, alias = self.query(deep + 1), self.name("f")
            return f"({found.sql}) AS {alias}", [Column(f"{alias}.{name}", kind) for name, kind in found.columns.items()], {}
        if table is None and self.likely(0.08):
            alias = self.name("v")
            rows = ", ".join(f"({self.literal(INT)}, {self.literal(STRING)})" for _ in range(3))
            return f"(VALUES {rows}) AS {alias}(id, g)", [Column(f"{alias}.id", INT), Column(f"{alias}.g", STRING)], {}
        table = table or str(self.one(*TABLES))
        columns = self.ctes.get(table) or TABLES[table]
        alias, shown = self.name("x"), table if table in self.ctes else self.prefix + table
        found = [Column(f"{alias}.{name}", kind) for name, kind in columns.items()]
        return f"{shown}{self.one(' AS', '')} {alias}", found, dict(columns)

    def join(self, text: str, scope: Scope, names: dict[str, str], deep: int) -> tuple[str, Scope, dict[str, str]]:
        right, more, theirs = self.relation(deep)
        both = [name for name in names if names[name] == theirs.get(name) != ARRAY]
        word = str(
            self.one(
                "JOIN",
                "INNER JOIN",
                "LEFT JOIN",
                "LEFT OUTER JOIN",
                "RIGHT JOIN",
                "FULL JOIN",
                "LEFT SEMI JOIN",
                "LEFT ANTI JOIN",
            )
        )
        kept = scope if word.endswith(("SEMI JOIN", "ANTI JOIN")) else [*scope, *more]
        if both and self.likely(0.35):
            used = self.dice.sample(both, self.dice.randint(1, len(both)))
            if len(used) == len(both) and self.likely(0.3) and " JOIN " not in text and kept is not scope:
                return f"{text} NATURAL {word.removeprefix('INNER ')} {right}", kept, {}
            return f"{text} {word} {right} USING ({', '.join(used)})", kept, {}
        if self.likely(0.1):
            return f"{text} {self.one('CROSS JOIN', ',')} {right}", [*scope, *more], {}
        if self.likely(0.1) and scope:
            alias, inner = self.name("l"), self.name("y")
            outer = self.expression(INT, scope, _DEEP)
            body = f"SELECT max({inner}.x) AS m, count(*) AS o FROM {self.prefix}u {inner} WHERE {inner}.k = {outer}"
            return f"{text} {self.one('CROSS JOIN', ',')} LATERAL ({body}) AS {alias}", [
                *scope, Column(f"{alias}.m", INT), Column(f"{alias}.o", BIGINT),
            ], {}  # fmt: skip
        pairs = [(a.sql, b.sql) for a in scope for b in more if a.type == b.type != ARRAY]
        equal = "{} = {}".format(*self.dice.choice(pairs)) if pairs and self.likely(0.85) else ""
        condition = self.condition([*scope, *more], 2) if not equal or self.likely(0.3) else ""
        return f"{text} {word} {right} ON {' AND '.join(part for part in (equal, condition) if part)}", kept, {}

    def pipe(self) -> str:
        table = str(self.one(*TABLES))
        columns = {name: kind for name, kind in TABLES[table].items() if kind != ARRAY}
        text = f"FROM {self.prefix}{table} |> SELECT {', '.join(columns)}"
        for _ in range(self.dice.randint(1, 4)):
            scope = [Column(name, kind) for name, kind in columns.items()]
            step = self.one("where", "extend", "select", "aggregate", "set", "drop", "union", "as")
            kind = str(self.one(*PLAIN))
            if step == "where":
                text += f" |> WHERE {self.condition(scope, 1)}"
            elif step == "extend":
                name = self.name("c")
                text += f" |> EXTEND {self.expression(kind, scope, 1)} AS {name}"
                columns[name] = kind
            elif step == "select":
                made = {self.name("c"): str(self.one(*PLAIN)) for _ in range(2)}
                text += f" |> SELECT {', '.join(f'{self.expression(one, scope, 1)} AS {name}' for name, one in made.items())}"
                columns = made
            elif step == "aggregate":
                key, total = str(self.one(*columns)), self.name("m")
                text += f" |> AGGREGATE {self.aggregate(scope)} AS {total} GROUP BY {key}"
                columns = {key: columns[key]}
            elif step == "set":
                name = str(self.one(*columns))
                text += f" |> SET {name} = {self.expression(columns[name], scope, 1)}"
            elif step == "drop" and len(columns) > 1:
                name = str(self.one(*columns))
                text += f" |> DROP {name}"
                del columns[name]
            elif step == "as":
                text += f" |> AS {self.name('p')}"
            elif step == "union" and "AGGREGATE" not in text:
                row = ", ".join(self.literal(one) for one in columns.values())
                text += f" |> {self.one('UNION ALL', 'EXCEPT', 'INTERSECT')} SELECT {row}"
        return text

    # -- changes of rows ----------------------------------------------------------------------------------------------

    def change(self, table: str = "t") -> str:
        """A statement that changes the rows of a table."""
        alias = self.name("x") if self.likely(0.5) else table
        shown = self.prefix + (table if alias == table else f"{table} AS {alias}")
        scope = columns_of(table, alias)
        return self.made(
            lambda: f"DELETE FROM {shown} WHERE {self.condition(scope)}",
            lambda: (
                f"UPDATE {shown} SET {self.assignments(table, scope)}"
                + (f" WHERE {self.condition(scope)}" if self.likely(0.8) else "")
            ),
            lambda: self.merge(table, alias, shown, scope),
            lambda: self.merge(table, alias, shown, scope),
            lambda: self.insert(table),
        )

    def assignments(self, table: str, scope: Scope) -> str:
        chosen = self.dice.sample(list(TABLES[table])[1:], self.dice.randint(1, 3))
        return ", ".join(f"{name} = {self.expression(TABLES[table][name], scope, 1)}" for name in chosen)

    def insert(self, table: str) -> str:
        columns = TABLES[table]
        if self.likely(0.5):
            chosen = [next(iter(columns)), *self.dice.sample(list(columns)[1:], 2)]
            rows = ", ".join(f"({', '.join(self.literal(columns[name]) for name in chosen)})" for _ in range(2))
            return f"INSERT INTO {self.prefix}{table} ({', '.join(chosen)}) VALUES {rows}"
        found = self.select(1, list(columns.values()))
        items = ", ".join(f"{old} AS {new}" for old, new in zip(found.columns, columns, strict=True))
        return f"INSERT INTO {self.prefix}{table}{self.one('', ' BY NAME')} SELECT {items} FROM ({found.sql})"

    def merge(self, table: str, alias: str, shown: str, scope: Scope) -> str:
        key, columns = next(iter(TABLES[table])), TABLES[table]
        source = self.name("m")
        inner = f"(SELECT k AS id, max(x) AS n, min(g) AS g, max(d) AS d FROM {self.prefix}u GROUP BY k) AS {source}"
        theirs = [Column(f"{source}.{name}", kind) for name, kind in (("id", INT), ("n", INT), ("g", STRING), ("d", DATE))]
        if self.likely(0.2):
            inner, theirs = f"{self.prefix}u AS {source}", columns_of("u", source)
        both = [*scope, *theirs]
        on = f"{alias}.{key} = {theirs[0].sql}" + (f" AND {self.condition(both, 2)}" if self.likely(0.3) else "")
        clauses = []
        for _ in range(self.dice.randint(1, 2)):
            also = f" AND {self.condition(both, 2)}" if self.likely(0.6) else ""
            clauses.append(f"WHEN MATCHED{also} THEN {self.one('DELETE', f'UPDATE SET {self.assignments(table, both)}')}")
        if self.likely(0.6):
            also = f" AND {self.condition(theirs, 2)}" if self.likely(0.5) else ""
            chosen = [key, *self.dice.sample([name for name in columns if name != key], 2)]
            values = [theirs[0].sql, *(self.expression(columns[name], theirs, 1) for name in chosen[1:])]
            clauses.append(f"WHEN NOT MATCHED{also} THEN INSERT ({', '.join(chosen)}) VALUES ({', '.join(values)})")
        if self.likely(0.4):
            also = f" AND {self.condition(scope, 2)}" if self.likely(0.7) else ""
            clauses.append(
                f"WHEN NOT MATCHED BY SOURCE{also} THEN {self.one('DELETE', f'UPDATE SET {self.assignments(table, scope)}')}"
            )
        return f"MERGE INTO {shown} USING {inner} ON {on} {' '.join(clauses)}"


def columns_of(table: str, alias: str) -> list[Column]:
    return [Column(f"{alias}.{name}", kind) for name, kind in TABLES[table].items()]
