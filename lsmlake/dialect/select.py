"""Translates one SELECT to DuckDB, in the order in which its clauses apply:

1. FROM and WHERE give rows.
2. GROUP BY makes groups of them (`grouping`); HAVING chooses among these.
3. The expressions of SELECT give the output `#0`, `#1`, ..., beside hidden columns for QUALIFY and ORDER BY.
4. QUALIFY, DISTINCT, ORDER BY and LIMIT apply to this output, in queries around it.

So a name means the same to DuckDB as to Spark wherever it stands: DuckDB resolves no name of another step.

An item of SELECT can be `*`, `t.*` or `struct.*`, with EXCEPT. `|> SET` of pipes comes as `* REPLACE (expression AS column)`,
which the text itself cannot have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from sqlglot import exp

from lsmlake.dialect.context import Context
from lsmlake.dialect.existence import member
from lsmlake.dialect.expression import Translator
from lsmlake.dialect.generators import generated, is_generator
from lsmlake.dialect.grouping import SelectGroups, aggregates, grouped
from lsmlake.dialect.pipes import AGGREGATES_ROWS, INPUT_COLUMN
from lsmlake.dialect.queries import Queries, Query, relation_of
from lsmlake.dialect.relations import From, Relations
from lsmlake.dialect.scope import Relation, Scope, ScopeColumn, Typed
from lsmlake.dialect.sorting import OutputColumn, Sorting, by_name, is_all, limit_number, limits, ordinal, sorting
from lsmlake.dialect.sql_text import passed_on, peek
from lsmlake.dialect.sql_types import quoted, text
from lsmlake.dialect.table_use import push
from lsmlake.types.spelling import spelled

_KEPT = quoted("#kept")


@dataclass
class Select:
    """One SELECT.

    Attributes:
        ctes: the queries that WITH names.
        outer: the scope of the query around it.
        more: further expressions behind those of the node.
    """

    queries: Queries
    node: exp.Select
    ctes: Mapping[str, Query]
    outer: Scope | None
    more: tuple[exp.Expression, ...] = ()
    groups: SelectGroups | None = None
    outputs: list[OutputColumn] = field(default_factory=list)

    @property
    def items(self) -> list[exp.Expression]:
        """The expressions of SELECT. `(a)` is the column a."""
        return [*map(_bare, self.node.expressions), *self.more]

    def query(self) -> Query:
        """The translation."""
        node, queries = self.node, self.queries
        if not self.items:
            queries.text.refuse(node, "SELECT without columns", cure="write SELECT * or name columns")
        if hint := node.args.get("hint"):
            passed_on(hint)  # it changes no result
        relations = Relations(queries, self.ctes, self.outer)
        source, generator = self._with_generator(relations, relations.of(node))
        before = queries.translator(source.scope, self.ctes)
        rows = self._rows(source, before)
        here = replace(before, windows=True, named_windows=self._windows())
        if self._is_grouped():
            here = self._group(before, here)
        self._read_outputs(here, generator)
        known = self._known()
        after = replace(here, aliases=by_name(self.outputs), late=True)
        having = node.args.get("having")
        condition = queries.condition(replace(after, windows=False), having.this) if having else None
        kept = self._qualified(after)
        sort = self._sorting(after if known is None else replace(after, groups=replace(self.groups, fixed=known)))
        if self.groups is not None:
            rows = f" FROM ({self.groups.sql(rows)}) AS {self.groups.name}{f' WHERE {condition}' if condition else ''}"
        self._push_limit(source)
        keys, limit = None if self.groups is None else len(self.groups.keys), limits(queries.text, node)
        made = self._output(self._sql(rows, kept, sort) + limit, keys)
        several = self.groups is not None and self.groups.sets is not None
        windows = kept is not None or any(item.find(exp.Window) is not None for item in self.items)
        if self.groups is None and generator is None and source.sql:
            made = replace(made, member=partial(member, node, source.sql, before))
        return made.placeless if limit or several or windows else made

    def _output(self, sql: str, keys: int | None = None) -> Query:
        columns = tuple((one.name, one.made.type) for one in self.outputs)
        return Query(sql, columns, keys, tuple(one.made.known for one in self.outputs))

    def _rows(self, source: From, before: Translator) -> str:
        """FROM and WHERE. Tables get the conditions that choose among their rows."""
        rows = f" FROM {source.sql}" if source.sql else ""
        if where := self.node.args.get("where"):
            rows += f" WHERE {self.queries.condition(before, where.this)}"
            push(where.this, source.scope)
        return rows

    def _known(self) -> frozenset[str] | None:
        """The aggregates that ORDER BY can name: beside windows none, beside HAVING those of SELECT; None: all."""
        if self.groups is None:
            return None
        if any(item.find(exp.Window) is not None for item in self.items):
            return frozenset()
        return frozenset(self.groups.calls) if peek(self.node, "having") is not None else None

    def _qualified(self, after: Context) -> str | None:
        """The condition of QUALIFY."""
        qualify = self.node.args.get("qualify")
        if qualify is None:
            return None
        if not any(part.find(exp.Window) for part in (qualify, *self.items)):
            self.queries.text.refuse(qualify, "QUALIFY needs a window function", cure="write WHERE or HAVING")
        return self.queries.condition(after, qualify.this)

    def _sql(self, rows: str, kept: str | None, sort: Sorting) -> str:
        """The output of `rows`: keeps the rows for which `kept` is true, drops repeated rows, sorts."""
        outputs = [quoted(f"#{place}") for place in range(len(self.outputs))]
        distinct = self.node.args.get("distinct") is not None
        made = [one.made for one in self.outputs]
        values = self.queries.compared(self.node, made) if distinct else [one.sql for one in made]
        columns = [f"{sql} AS {name}" for sql, name in zip(values, outputs, strict=True)]
        hidden = {quoted(f"#s{place}"): sql for place, sql in enumerate(sort.hidden)} | ({_KEPT: kept} if kept else {})
        word = "DISTINCT " if distinct and not kept else ""
        made = f"SELECT {word}{', '.join([*columns, *(f'{sql} AS {name}' for name, sql in hidden.items())])}{rows}"
        if kept:
            names = [*outputs, *(name for name in hidden if name != _KEPT)]
            made = f"SELECT {'DISTINCT ' if distinct else ''}{', '.join(names)} FROM ({made}) WHERE {_KEPT}"
        if sort.items:
            listed = ", ".join(f"{sort.name}.{name}" for name in outputs)
            made = f"SELECT {listed} FROM ({made}) AS {sort.name} ORDER BY {', '.join(sort.items)}"
        return made

    def _sorting(self, after: Context) -> Sorting:
        name = self.queries.fresh()
        over = None
        if peek(self.node, "distinct") is not None:
            over = Scope((relation_of(name, (), self._output("")),), outer=self.outer)
        return sorting(after, self.node, self.outputs, name, over)

    # -- groups -------------------------------------------------------------------------------------------------------

    def _is_grouped(self) -> bool:
        node = self.node
        parts = [*self.items, *(one for key in ("order", "qualify") if (one := peek(node, key)) is not None)]
        return bool(peek(node, "group") or peek(node, "having")) or any(map(aggregates, parts))

    def _group(self, before: Translator, here: Translator) -> Translator:
        """Reads GROUP BY. Returns the translator for expressions over the groups."""
        self.groups = groups = SelectGroups(before, self.queries.fresh())
        group = self.node.args.get("group")
        if group is not None:
            everything = bool(peek(group, "all") and group.args.get("all"))  # False means DISTINCT
            if everything and not self._has_column("all", before):
                self._group_by_all(group, groups)
            else:
                grouped(groups, group, [exp.column("all")] * everything + group.expressions, self._item)
        return replace(here, scope=groups.scope, groups=groups, aggregates=True)

    def _has_column(self, name: str, before: Translator) -> bool:
        return bool(before.scope.found([name])) or any(item.alias.lower() == name for item in self.items)

    def _group_by_all(self, group: exp.Group, groups: SelectGroups) -> None:
        """GROUP BY ALL: by the expressions of SELECT that hold no aggregate."""
        if group.expressions:
            self.queries.text.refuse(group, "GROUP BY ALL stands alone", cure="list the columns")
        for item in self.items:
            if is_star(item):
                for column, _ in self._starred(item, groups.before):
                    groups.column(column)
            elif not aggregates(item) and not item.find(exp.Window):
                groups.key(_unaliased(item))

    def _item(self, item: exp.Expression) -> exp.Expression:
        """The expression of an item of GROUP BY: a number or an alias stands for an expression of SELECT."""
        text, items = self.queries.text, self.items
        place = ordinal(text, item, len(items))
        if place is not None:
            if any(map(is_star, items)):
                text.refuse(item, "a number in GROUP BY needs SELECT without *", cure="name the columns")
            expression = _unaliased(items[place])
        elif isinstance(item, exp.Column) and not item.table and not self.groups.before.scope.found([item.name]):
            named = [_unaliased(one) for one in items if isinstance(one, exp.Alias) and one.alias.lower() == item.name.lower()]
            if len(named) > 1:
                text.refuse(item, f"the name {item.name} can mean several columns", cure="write the expression")
            expression = named[0] if named else item
        else:
            expression = item
        if aggregates(expression):
            text.refuse(item, "GROUP BY takes no aggregate functions", cure="write the aggregate in SELECT or HAVING")
        return expression

    # -- the columns of the result ------------------------------------------------------------------------------------

    def _read_outputs(self, here: Translator, generator: Relation | None) -> None:
        aliases: dict[str, Typed | None] = {}
        context = replace(here, aliases=aliases)
        for item in self.items:
            inner = _unaliased(item)
            if AGGREGATES_ROWS in item.meta and not aggregates(inner):
                self.queries.text.refuse(item, "|> AGGREGATE takes aggregate functions", cure="write it behind GROUP BY")
            if is_star(item):
                self.outputs += [OutputColumn(column.name, made, True) for column, made in self._starred(item, context)]
                continue
            if generator is not None and is_generator(inner):
                made = [OutputColumn(one.name, Typed(one.sql, one.type), True) for one in generator.columns]
                self.outputs += made
                if isinstance(item, exp.Aliases):
                    continue
            else:
                is_name = isinstance(inner, (exp.Column, exp.Dot))
                alias = item.alias if isinstance(item, exp.Alias) else ""  # the alias of a window names its definition
                made = [OutputColumn(alias or self._name(inner, is_name), context.typed(item), bool(alias) or is_name)]
                self.outputs += made
            if isinstance(item, exp.Alias):
                known = made[0].name.lower()
                aliases[known] = None if known in aliases else made[0].made

    def _name(self, inner: exp.Expression, is_name: bool) -> str:
        """The name of a column of the result that has no alias."""
        if isinstance(inner, exp.Anonymous) and inner.name == INPUT_COLUMN:
            return self.groups.before.scope.columns()[int(inner.expressions[0].this) - 1].name
        return inner.name if is_name else spelled(inner)

    def _starred(self, item: exp.Expression, here: Context) -> list[tuple[ScopeColumn, Typed]]:
        """The columns that `*` or `t.*` stands for."""
        scope = here.scope if self.groups is None else self.groups.before.scope
        return [(one, self._over_groups(item, one)) for one in starred(here, item, scope)]

    def _over_groups(self, item: exp.Expression, column: ScopeColumn) -> Typed:
        if self.groups is None or not self.groups.keys:
            if self.groups is not None and self.node.args.get("group") is None:
                self.queries.text.refuse(item, "* needs a GROUP BY of all columns beside an aggregate", cure="name the columns")
            return column.typed
        key = self.groups.keys.get(column.sql)
        if key is None:
            what = f"the column {column.name} is neither in GROUP BY nor in an aggregate function"
            self.queries.text.refuse(item, what, cure="add it to GROUP BY, or name the columns")
        return key

    def _with_generator(self, relations: Relations, source: From) -> tuple[From, Relation | None]:
        """FROM, joined with the rows of a generator among the expressions of SELECT, and the columns of the generator."""
        generators = [item for item in self.items if is_generator(_unaliased(item))]
        if not generators:
            return source, None
        if len(generators) > 1 or self._is_grouped():
            cure = "write LATERAL VIEW after FROM"
            self.queries.text.refuse(generators[-1], "SELECT takes one function that gives rows, and then no groups", cure=cure)
        (item,) = generators
        inner = _unaliased(item)
        made = generated(self.queries.translator(source.scope, self.ctes), inner)
        names = [one.name for one in item.aliases] if isinstance(item, exp.Aliases) else [item.alias] if item.alias else []
        self.queries.check_alias(item, names, len(made.columns))
        columns = tuple((name, kind) for name, (_, kind) in zip(names, made.columns, strict=True)) if names else made.columns
        return relations.lateral(source, inner, made._replace(columns=columns))

    def _windows(self) -> dict[str, exp.Window]:
        """The windows of the clause WINDOW, by name."""
        windows: dict[str, exp.Window] = {}
        for window in self.node.args.get("windows") or ():
            if window.args.get("alias"):
                self.queries.text.refuse(window, "a window cannot be based on another one", cure="write the whole window")
            name = window.this.name.lower()
            if name in windows:
                self.queries.text.refuse(window, f"the window {name} is defined twice", cure="give it another name")
            windows[name] = window
        return windows

    def _push_limit(self, source: From) -> None:
        """Passes a LIMIT on the rows of one table to the table."""
        limit, offset = peek(self.node, "limit"), peek(self.node, "offset")
        if limit is None or is_all(limit) or not self._gives_rows_of(source):
            return
        text = self.queries.text
        source.uses[0].limit = limit_number(text, limit) + (limit_number(text, offset) if offset is not None else 0)

    def _gives_rows_of(self, source: From) -> bool:
        """Whether the result has the rows of the one table in FROM, in any order."""
        if self.groups is not None or len(source.uses) != 1 or len(source.scope.relations) > 1:
            return False
        if any(peek(self.node, name) for name in ("where", "having", "order", "distinct", "joins", "laterals", "qualify")):
            return False
        return all(isinstance(_unaliased(item), (exp.Column, exp.Star)) for item in self.items)


def _bare(item: exp.Expression) -> exp.Expression:
    inner = item.unnest()
    return inner if isinstance(inner, (exp.Column, exp.Anonymous)) and AGGREGATES_ROWS not in item.meta else item


def _unaliased(item: exp.Expression) -> exp.Expression:
    return item.this if isinstance(item, (exp.Alias, exp.Aliases)) else item


# -- stars ------------------------------------------------------------------------------------------------------------

Path = tuple[str, ...]


def is_star(item: exp.Expression) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))


def starred(context: Context, item: exp.Expression, scope: Scope) -> list[ScopeColumn]:
    """The columns that an item of SELECT stands for.

    Args:
        context: translates the expressions of REPLACE, and raises errors.
        item: an item for which `is_star` holds.
        scope: the rows of FROM.
    """
    star = item if isinstance(item, exp.Star) else item.this
    inside = scope if item is star else _inside(context, item, scope)
    columns = inside.columns()
    if not columns:
        context.text.refuse(item, "there are no such columns", cure="name columns that are there")
    dropped = _dropped(context, star, columns, replace(inside, outer=None))
    made = [_without(context, star, one, dropped[one.sql]) if one.sql in dropped else one for one in columns]
    for new in star.args.get("replace") or ():
        made = _replaced(context, new, [one for one in made if one is not None])
    if not (kept := [one for one in made if one is not None]):
        context.text.refuse(item, "no column is left", cure="name a column")
    return kept


def _inside(context: Context, item: exp.Column, scope: Scope) -> Scope:
    """The columns of a table, or the fields of a STRUCT."""
    path = [part.name for part in item.parts[:-1]]
    qualifier = ".".join(path).lower()
    relations = [one for one in scope.relations if qualifier in (name.lower() for name in one.qualifiers)]
    if len(relations) == 1:
        return Scope((relations[0],))
    if relations or not scope.own(path):
        context.text.refuse(item, f"there is no table {qualifier} in FROM", cure="name a table of FROM")
    made = context.typed(exp.column(*reversed(path)))
    if not pa.types.is_struct(made.type):
        context.text.refuse(item, f"{qualifier} has no fields", expected="a table or a STRUCT", cure="name a STRUCT")
    fields = (ScopeColumn(field.name, field.type, f"struct_extract({made.sql}, {text(field.name)})") for field in made.type)
    return Scope((Relation((), tuple(fields)),))


def _dropped(context: Context, star: exp.Star, columns: Iterable[ScopeColumn], scope: Scope) -> dict[str, list[Path]]:
    """The SQL of a column that EXCEPT names -> the paths of its fields, () for the whole column."""
    known, dropped = {column.sql for column in columns}, {}
    for item in star.args.get("except_") or ():
        path = [part.name for part in item.parts] if isinstance(item, exp.Column) else []
        matches = {column.sql: tuple(map(str.lower, path[length:])) for column, length in (scope.found(path) if path else ())}
        matches = {sql: fields for sql, fields in matches.items() if sql in known}
        if len(matches) != 1:
            context.text.refuse(item, "EXCEPT takes columns", expected=", ".join(scope.names()), cure="name columns")
        ((sql, fields),) = matches.items()
        before = dropped.setdefault(sql, [])
        if any(fields[: len(one)] == one or one[: len(fields)] == fields for one in before):
            context.text.refuse(item, "EXCEPT names a column twice", cure="name it once")
        before.append(fields)
    return dropped


def _without(context: Context, star: exp.Star, column: ScopeColumn, paths: list[Path]) -> ScopeColumn | None:
    """A column without the fields at some paths; None if the path () leaves out all of it."""
    if () in paths:
        return None
    kind = column.type
    names = {field.name.lower() for field in kind} if pa.types.is_struct(kind) else set()
    if unknown := sorted({path[0] for path in paths} - names):
        context.text.refuse(star, f"{column.name} has no such fields", found=unknown, cure="name fields that are there")
    fields = [ScopeColumn(field.name, field.type, f"struct_extract({column.sql}, {text(field.name)})") for field in kind]
    inner = ((one, [path[1:] for path in paths if path[0] == one.name.lower()]) for one in fields)
    left = [rest for one, below in inner if (rest := _without(context, star, one, below) if below else one) is not None]
    if not left:
        context.text.refuse(star, f"no field of {column.name} is left", cure="leave out the column")
    packed = ", ".join(f"{quoted(one.name)} := {one.sql}" for one in left)
    sql = f"CASE WHEN {column.sql} IS NOT NULL THEN struct_pack({packed}) END"
    return ScopeColumn(column.name, pa.struct([pa.field(one.name, one.type) for one in left]), sql)


def _replaced(context: Context, new: exp.Alias, columns: list[ScopeColumn]) -> list[ScopeColumn]:
    """The columns, one of them with another value."""
    name = new.alias.lower()
    places = [place for place, one in enumerate(columns) if one.name.lower() == name]
    if len(places) != 1:
        number = f"{len(places)} columns of this name" if places else None
        context.text.refuse(
            new,
            f"SET takes a column: {name}",
            expected=", ".join(one.name for one in columns),
            found=number,
            cure="name a column that is there",
        )
    made = context.typed(new.this)
    column = ScopeColumn(columns[places[0]].name, made.type, made.sql)
    return [*columns[: places[0]], column, *columns[places[0] + 1 :]]
