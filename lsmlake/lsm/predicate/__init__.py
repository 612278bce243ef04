"""Conditions on rows: read from SQL text, evaluated on Arrow data, and used to skip files that cannot match."""

from lsmlake.lsm.predicate.evaluate import evaluate
from lsmlake.lsm.predicate.prune import ColumnBounds, key_values, may_match
from lsmlake.lsm.predicate.text import parse
from lsmlake.lsm.predicate.tree import Predicate, Unsupported, and_

__all__ = ["ColumnBounds", "Predicate", "Unsupported", "and_", "evaluate", "key_values", "may_match", "parse"]
