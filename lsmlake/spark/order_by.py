"""The order of the rows of a DataFrame: `order_by` as Spark expressions."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lsmlake.errors import InvalidQuery
from lsmlake.schema.schema import Schema
from lsmlake.types.type_text import backticked
from lsmlake.undo import pass_interruption
from lsmlake.write.order import check_typed, commit_columns_in, order_in
from lsmlake.write.prepare import row_kind_source
from lsmlake.write.write_request import WriteRequest


@dataclass(frozen=True)
class FrameOrder:
    """The order of the rows of a DataFrame.

    Attributes:
        expressions: Spark expressions, the most significant first.
        own: the columns of the data that only the order reads.
        any: whether the order of the rows of a key does not matter.
    """

    expressions: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()
    any: bool = False

    @staticmethod
    def of(columns: pa.Schema, schema: Schema, request: WriteRequest) -> FrameOrder:
        """The order of the rows of a write from a DataFrame with these columns. Raises InvalidQuery, InvalidData."""
        if request.deletes:
            return FrameOrder(any=True)  # the deletes of a key are equal
        commit, order_by = commit_columns_in(columns, schema), order_in(request.order_by, columns, schema)
        if order_by is None or order_by.any:
            return FrameOrder((), frozenset(commit), order_by is not None)
        source = row_kind_source(schema, request)
        kept = {name.lower() for name in (*schema.columns.names, *([source.column] if source else []))}
        read = order_by.reads
        own = {name for name in columns.names if name.lower() in read and name.lower() not in kept}
        if request.cast is not None and order_by.names:
            check_typed([field for field in columns if field.name in own])
        texts = [backticked(text) if order_by.names else text for text in order_by.expressions]
        return FrameOrder(tuple(texts), frozenset({*own, *commit}))

    def check(self, named) -> None:
        """Raises InvalidQuery if an expression is not valid SQL over these rows, or its values have no order."""
        if not self.expressions:
            return
        try:
            fields = named.selectExpr(*self.expressions).schema.fields
        except Exception as refused:  # of Spark's analyzer, classic or Connect
            pass_interruption(refused)
            raise InvalidQuery(
                "Spark does not understand order_by",
                expected=f"expressions over {named.columns}",
                found=str(refused).partition("\n")[0],
                cure="correct the expression",
            ) from refused
        for text, field in zip(self.expressions, fields, strict=True):
            if field.dataType.typeName() in ("array", "map", "struct", "variant", "void"):
                raise InvalidQuery(
                    "order_by has values without an order",
                    where=text,
                    found=field.dataType.simpleString(),
                    cure="order by a number, a time or a text, such as a field of a struct",
                )
