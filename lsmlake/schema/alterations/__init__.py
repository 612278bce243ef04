"""Alterations of a table as values, and the next schema that a sequence of them gives. Pure; `maintain.alter` publishes it.

Every field keeps its id for life and no id is used twice. So an alteration rewrites no files: readers match columns by id, a
renamed column is still found, and a column that was dropped and added again has none of its old values. An alteration is refused,
with the reason, if it would make stored rows invalid or unreadable.
"""
