"""The parameters of a write: what the user says about the rows and about the commit. One value from the verb to the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lsmlake.commit.request import Advance, Identity
from lsmlake.commit.requirements import Requirement
from lsmlake.inputs.text_files import FileOptions
from lsmlake.schema import rowkind
from lsmlake.schema.conform import Cast
from lsmlake.write.order import OrderBy, Ordered
from lsmlake.write.replace import Replacement


@dataclass(frozen=True)
class WriteRequest:
    """The parameters of a write.

    Attributes:
        identity: the identity of the commit; None: the rows are only prepared.
        row_kind: the column with row kinds.
        deletes: the rows are keys to delete.
        ignore_sequence: delete rows whatever their sequence.
        of_rows: the keys to delete were read from rows, so a null sequence is that of its row.
        cast: convert values.
        order_by: the order of the rows of a key.
        ordered: whether the rows of data in this process have an order without `order_by`.
        files: how text files are read.
        evolve: first add the columns of the data that the table lacks.
        compact: compact each bucket after the write; None: as the options of the table say.
        reclaims: whether these compactions drop dead rows as those of an upsert do; otherwise they leave more of them to the next
            write that does, or to a maintainer.
        distinct: raise InvalidData if several rows have one key.
        replaces: the write is an overwrite of these rows.
        requires: the requirement of the commit; None: the rows must fit the schema in effect.
        properties: returns the properties of the snapshot; called when all rows are written.
        advance: see `Request`.
    """

    identity: Identity | None = None
    row_kind: rowkind.Source | None = None
    deletes: bool = False
    ignore_sequence: bool = False
    of_rows: bool = False
    cast: Cast | None = None
    order_by: OrderBy | None = None
    ordered: Ordered = Ordered.ALL
    files: FileOptions = field(default_factory=FileOptions)
    evolve: bool = False
    compact: bool | None = None
    reclaims: bool = True
    distinct: bool = False
    replaces: Replacement | None = None
    requires: Sequence[Requirement] | None = None
    properties: Callable[[], Mapping[str, str]] = dict
    advance: Advance | None = None
