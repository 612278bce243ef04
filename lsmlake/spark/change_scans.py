"""Reads changelog files with Catalyst.

A row of a changelog file is a change, so a scan of the files and the name of the kind are all that is needed. Spark reads only
the columns of a query, and files in any order. So whoever needs the changes of a key in order reads them in Python tasks, one for
each bucket (`spark.task_reads`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from lsmlake.cdc.change_reader import ChangeFiles, Piece
from lsmlake.cdc.commits import Feed
from lsmlake.format.data_files import DataFile
from lsmlake.lsm.difference import KIND_FIELD
from lsmlake.schema.rowkind import NAMES
from lsmlake.schema.schema import ROW_KIND
from lsmlake.spark import connector, settings
from lsmlake.spark.scans import Scans
from lsmlake.tables.version import Metadata
from lsmlake.types.type_text import backticked

_KIND = f"element_at(array({', '.join(map(repr, NAMES))}), coalesce({ROW_KIND}, 0) + 1) as {KIND_FIELD.name}"


def are_scanned(spark, meta: Metadata, like: Feed, pieces: Sequence[Piece]) -> bool:
    """Whether `changes` can read all the changes: they lie in changelog files that Spark reaches, and the feed asks for no filter
    and no columns of the commits."""
    if like.predicate is not None or like.commits or like.schema.moves_keys or any(piece.upserts for piece in pieces):
        return False
    if not all(isinstance(step, ChangeFiles) for piece in pieces for step in piece.steps):
        return False
    if settings.refuses_native(spark.conf.get, like.schema.columns.names) is not None:
        return False
    return connector.refuses(spark, meta, [file for piece in pieces for file in _files(piece)]) is None


def changes(spark, meta: Metadata, like: Feed, pieces: Sequence[Piece]):
    """Returns a DataFrame with the changes in changelog files, in any order."""
    settings.check_columns(spark.conf.get, like.schema.columns)
    scans = Scans(spark, meta, like.schema)
    places = [(piece.bucket, file) for piece in pieces for file in _files(piece)]
    columns = [_KIND, *map(backticked, like.columns)]
    parts = [scans.scan(group, ROW_KIND).selectExpr(*columns) for group in scans.groups(places)]
    return reduce(lambda left, right: left.union(right), parts)


def _files(piece: Piece) -> list[DataFile]:
    return [file for step in piece.steps for file in step.files]
