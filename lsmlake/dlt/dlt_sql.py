"""Datasets of dlt: `pipeline.dataset()` queries the tables with the SQL of `Lake.sql`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, ClassVar

import pyarrow as pa
import sqlglot
from dlt.common.destination.capabilities import DestinationCapabilitiesContext
from dlt.dataset import lineage
from dlt.destinations.sql_client import DBApiCursorImpl, SqlClientBase, raise_database_error
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from lsmlake.api.lake import Lake
from lsmlake.api.readable import Result
from lsmlake.dialect.grammar import PlainSpark
from lsmlake.dlt.dlt_errors import as_query_error
from lsmlake.errors import InvalidQuery, LakeError
from lsmlake.sql.token_reader import first_word
from lsmlake.types.type_text import backticked


def as_installed(qualify: Callable[..., Any]) -> Callable[..., Any]:
    """sqlglot's `qualify` without the argument `infer_schema`, if the installed version does not take it. dlt 1.31 passes it with
    every query of a dataset; sqlglot 30.24 and later always act as its value None did."""
    if "infer_schema" in signature(qualify).parameters:
        return qualify

    @wraps(qualify)
    def call(*args: Any, infer_schema: bool | None = None, **words: Any) -> Any:
        return qualify(*args, **words)

    return call


lineage.qualify = as_installed(lineage.qualify)


class ResultCursor:
    """The rows of a query, fetched in order."""

    def __init__(self, result: Result) -> None:
        self._result, self._next = result, 0
        self.description = [(name, None, None, None, None, None, None) for name in result.columns]

    def rows(self, count: int | None) -> pa.Table:
        """The next rows as Arrow; None: all that are left."""
        part = self._result.rows.slice(self._next, count)
        self._next += part.num_rows
        return part

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return Result(self.rows(None)).fetchall()

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next rows."""
        return Result(self.rows(size)).fetchall()

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row."""
        return next(iter(self.fetchmany(1)), None)

    def close(self) -> None:
        """Does nothing: there is no connection to close."""


class ArrowCursor(DBApiCursorImpl):
    """The cursor of a dataset, whose rows are Arrow tables already."""

    native_cursor: ResultCursor

    def iter_arrow(self, chunk_size: int | None) -> Iterator[pa.Table]:
        """Yields the rows in tables of at most so many rows; None: in one table."""
        part = self.native_cursor.rows(chunk_size)
        yield part
        while chunk_size and part.num_rows == chunk_size and (part := self.native_cursor.rows(chunk_size)).num_rows:
            yield part


class SqlClient(SqlClientBase[Lake]):
    """Queries a dataset."""

    dbapi: ClassVar[Any] = SimpleNamespace(apilevel="2.0", threadsafety=1, paramstyle="qmark")

    def __init__(self, lake: Lake, dataset_name: str, capabilities: DestinationCapabilitiesContext) -> None:
        super().__init__(None, dataset_name, dataset_name, capabilities)
        self._lake = lake

    def open_connection(self) -> Lake:
        """Returns the lake, which needs no connection."""
        return self._lake

    def close_connection(self) -> None:
        """Does nothing: there is no connection to close."""

    @property
    def native_connection(self) -> Lake:
        """The lake."""
        return self._lake

    def has_dataset(self) -> bool:
        """Whether the dataset exists."""
        return self.dataset_name in self._lake.databases()

    def begin_transaction(self) -> Any:
        """Refused: each statement is a commit of its own."""
        raise InvalidQuery("the destination lsmlake has no transactions", cure="run the statements one by one")

    @raise_database_error
    def execute_sql(self, sql: str, *args: Any, **kwargs: Any) -> Sequence[Sequence[Any]] | None:
        """Runs a statement. Returns its rows, if it has columns."""
        with self.execute_query(sql, *args, **kwargs) as cursor:
            return cursor.fetchall() if cursor.description else None

    @contextmanager
    @raise_database_error
    def execute_query(self, query: str, *args: Any, **kwargs: Any) -> Iterator[ArrowCursor]:
        """Runs a query; `%s` or `?` stand for `args`, `:name` for `kwargs`. Tables that it names without a database are those of
        the dataset."""
        if args and kwargs:
            raise InvalidQuery("arguments are given by place and by name", cure="give all in one way")
        values = list(args) or kwargs or None
        self._lake.sql(f"USE {backticked(self.dataset_name)}")
        yield ArrowCursor(ResultCursor(self._lake.sql(_question_marks(query) if args else query, args=values)))

    @staticmethod
    def is_dbapi_exception(ex: Exception) -> bool:
        """Whether an error is one of this library."""
        return isinstance(ex, LakeError)

    @staticmethod
    def _make_database_exception(ex: Exception) -> Exception:
        return as_query_error(ex)


def _question_marks(query: str) -> str:
    """A query with `?` for each `%s` that is not in a quoted text, a quoted name or a comment."""
    _, start = first_word(query)
    try:
        tokens = sqlglot.tokenize(" " * start + query[start:], dialect=PlainSpark)
    except SqlglotError:
        return query  # the lake refuses it, and names the place
    characters = list(query)
    for one, two in pairwise(tokens):
        if one.token_type is TokenType.MOD and (two.text, two.start) == ("s", one.end + 1):
            characters[one.start : two.end + 1] = "? "
    return "".join(characters)
