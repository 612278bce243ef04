"""GROUP BY: plain expressions, GROUPING SETS, ROLLUP and CUBE."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from lsmlake.dialect.expression import Translator

_SETS = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE", exp.GroupingSets: "GROUPING SETS"}
_WITH = {"rollup": "ROLLUP", "cube": "CUBE"}


def grouped(translator: Translator, group: exp.Group, output: Callable[[exp.Expression], str | None]) -> str:
    """The clause GROUP BY. `output`: the SQL of the column of SELECT that a number names; None for other expressions."""
    if group.args.get("all"):
        return " GROUP BY ALL"

    def one(item: exp.Expression) -> str:
        return output(item) or translator.typed(item).sql

    def several(item: exp.Expression) -> str:
        """An item in parentheses: one set of expressions."""
        if isinstance(item, exp.Tuple):
            return f"({', '.join(map(one, item.expressions))})"
        return one(item.this if isinstance(item, exp.Paren) else item)

    items = []
    for item in group.expressions:
        if type(item) in _SETS:
            parts = [several(part) if type(part) not in _SETS else _nested(translator, part) for part in item.expressions]
            items.append(f"{_SETS[type(item)]} ({', '.join(parts)})")
        else:
            items.append(one(item))
    words = [word for name, word in _WITH.items() if group.args.get(name)]
    return f" GROUP BY {words[0]} ({', '.join(items)})" if words else f" GROUP BY {', '.join(items)}"


def _nested(translator: Translator, item: exp.Expression) -> str:
    translator.text.refuse(item, "grouping sets in grouping sets are not supported", cure="list the sets")


def sets_of(select: exp.Select) -> tuple[exp.Expression, ...]:
    """The different expressions of a GROUP BY with several grouping sets, in the order of the text; none for a plain one."""
    group = select.args.get("group")
    if group is None or not (any(group.args.get(name) for name in _WITH) or any(type(one) in _SETS for one in group.expressions)):
        return ()
    found: list[exp.Expression] = []
    for item in group.expressions:
        for part in item.expressions if type(item) in _SETS else [item]:
            for one in part.expressions if isinstance(part, exp.Tuple) else [part.this if isinstance(part, exp.Paren) else part]:
                if one not in found:
                    found.append(one)
    return tuple(found)
