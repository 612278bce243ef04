"""Alterations of a table as values, and the next schema that a sequence of them gives. Pure; `maintain.alter` publishes it.

Every field keeps its id for life and no id is used twice. So files that were written before an alteration stay as they are:
readers match their columns by id, a renamed column is still found, and a column that was dropped and added again has none of its
old values. An alteration that old rows or readers could not follow is refused with the reason.
"""
