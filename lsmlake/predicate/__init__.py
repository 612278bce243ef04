"""Predicates: conditions on rows, evaluated on Arrow data and used to prune files. `where` reads them from SQL text."""

from lsmlake.predicate.evaluate import evaluate, evaluate_live
from lsmlake.predicate.pruning import ColumnBounds, key_values, may_match, must_match, reach
from lsmlake.predicate.tree import Predicate, and_, ordered

__all__ = [
    "ColumnBounds",
    "Predicate",
    "and_",
    "evaluate",
    "evaluate_live",
    "key_values",
    "may_match",
    "must_match",
    "ordered",
    "reach",
]
