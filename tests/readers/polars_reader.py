"""Polars, which plans with PyIceberg and reads files itself."""

from __future__ import annotations

import datetime as dt
import sys
import warnings
from decimal import Decimal

import polars as pl
import pyarrow as pa
from answering import Answer, NotAsked, answer_all
from questions import COUNT, ROWS, Filter, Question


def value_of(literal: str) -> object:
    kind, _, text = literal[:-1].partition("'") if literal.endswith("'") else ("", "", literal)
    if kind.startswith("TIMESTAMP"):
        return dt.datetime.fromisoformat(text)
    if kind.startswith("DATE"):
        return dt.date.fromisoformat(text)
    return text.replace("''", "'") if literal.endswith("'") else Decimal(literal) if "." in literal else int(literal)


def condition(one: Filter) -> pl.Expr:
    column = pl.col(one.column)
    if one.literal is None:
        return column.is_null() if one.op == "IS NULL" else column.is_not_null()
    value = pl.lit(value_of(one.literal))
    return {
        "=": column == value,
        "<>": column != value,
        "<": column < value,
        ">": column > value,
        "<=": column <= value,
        ">=": column >= value,
    }[one.op]


def opened(warehouse: str) -> Answer:
    warnings.simplefilter("ignore")

    def answer(question: Question) -> pa.Table:
        if question.what not in (ROWS, COUNT) or question.tag:
            raise NotAsked
        frame = pl.scan_iceberg(question.metadata, snapshot_id=question.snapshot)
        for one in question.where:
            frame = frame.filter(condition(one))
        return (frame.select(pl.len().alias("count")) if question.what == COUNT else frame).collect().to_arrow()

    return answer


if __name__ == "__main__":
    answer_all(opened, sys.argv[1:])
