"""Reading a parsed text completely: what no translator has looked at is refused.

The parser keeps almost every clause of a text in its tree; a clause is lost when a translator does not look at it. So the nodes
of a tree note which of their arguments are read, and `unread` finds the others:

    with read(tree): ...                 # within, `node.args` notes each `get`, also by `node.this`, `node.name` and their like
    unread(tree)                         # the first argument that is set and that nothing has read

Reading an argument declares that it is obeyed. To look at one for another purpose: `peek`. Copies, `nodes`, `walk`, `find` and
`sql` note nothing. Nodes must not be compared, since that reads all of them. Text that an argument holds, such as the kind of a
join, counts as read only through `word`, which compares it with the words that the caller knows.

Neighbours: `text` gives trees and refuses what is unread, `expression` and `query` read expressions and queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

SAME = {
    exp.Identifier: ("quoted",),  # names of columns and tables are compared without case, quoted or not
    exp.Literal: ("is_string",),
    exp.DataType: ("nested",),
    exp.Window: ("over",),
    exp.Div: ("typed", "safe"),  # the same for all divisions of a dialect
    exp.DPipe: ("safe",),
    exp.Concat: ("safe", "coalesce"),  # only texts side by side, since a call keeps its name
    exp.Pivot: ("pivot_column_naming",),
    exp.Placeholder: ("jdbc",),
    exp.TryCast: ("requires_string",),  # how CAST of Spark is parsed; whether an error gives null is `safe`
    exp.Cast: ("requires_string",),
}
"""Arguments that say nothing beside the class and the other arguments of their node."""
OFF = {
    exp.Create: ("concurrently", "refresh", "unique"),
    exp.Delete: ("cluster", "using"),
    exp.Insert: ("default", "exists", "ignore", "is_function", "partition", "settings", "source", "stored"),
    exp.Lateral: ("ordinality", "outer", "view"),
    exp.Merge: ("using_cond",),
    exp.Ordered: ("nulls_first",),
    exp.Parameter: ("expression",),
    exp.Partition: ("subpartition",),
    exp.Pivot: ("default_on_null", "identify_pivot_strings", "prefixed_pivot_columns", "value_columns_first"),
    exp.TruncateTable: ("exists", "is_database"),
}
"""Arguments that are False where the text has no such word. False of others is said, as by AS NOT MATERIALIZED."""


class _Args(dict[str, Any]):
    """The arguments of a node. `seen`: those that were read; `words`: those read as one of the words that the reader knows."""

    __slots__ = ("seen", "words")

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)
        self.seen: set[str] = set()
        self.words: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)


def nodes(tree: exp.Expression) -> list[exp.Expression]:
    """All nodes of a tree, each before the nodes in it, in the order of their arguments. Notes nothing."""
    found: list[exp.Expression] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        found.append(node)
        for value in reversed(node.args.values()):
            if isinstance(value, exp.Expr):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [one for one in reversed(value) if isinstance(one, exp.Expr)]
    return found


def watch(tree: exp.Expression) -> None:
    """Makes the nodes of a tree note what is read of them."""
    for node in nodes(tree):
        node.args = _Args(node.args)


def peek(node: exp.Expression, key: str) -> Any:
    """An argument, looked at for another purpose than obeying it."""
    return dict.get(node.args, key)


def word(node: exp.Expression, key: str) -> str:
    """The text of an argument in upper case, "" if it is not set. The caller must know what each text means: see `Text.word`."""
    if isinstance(node.args, _Args):
        node.args.words.add(key)
    return str(node.args.get(key) or "").upper()


def operands(node: exp.Expression, kind: type[exp.Binary]) -> list[exp.Expression]:
    """The operands of a chain of the same operator, such as `a AND b AND c`, in the order of the text."""
    found: list[exp.Expression] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if type(one) is kind:
            waiting += (one.expression, one.this)
        else:
            found.append(one)
    return found


def passed_on(tree: exp.Expression) -> None:
    """Notes a whole part of a tree as read: another parser reads its text."""
    for node in nodes(tree):
        if isinstance(node.args, _Args):
            node.args.seen.update(node.args)
            node.args.words.update(node.args)


def unread(tree: exp.Expression) -> tuple[exp.Expression, str] | None:
    """The first node with an argument that is set and was not read, and the name of the argument; None if all was read.
    Nodes that were made after `watch` count as read, the nodes in them do not."""
    for node in nodes(tree):
        if isinstance(node.args, _Args):
            for key, value in said(node):
                known = node.args.words if isinstance(value, str) and key != "this" else node.args.seen
                if key not in known:
                    return node, key
    return None


def said(node: exp.Expression) -> Iterator[tuple[str, Any]]:
    same, off = SAME.get(type(node), ()), OFF.get(type(node), ())
    for key, value in node.args.items():
        said = any(one is not None for one in value) if isinstance(value, list) else value or (value is False and key not in off)
        if key not in same and said:
            yield key, value
