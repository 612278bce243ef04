"""Creates the merge rule of a table from its schema and options."""

from __future__ import annotations

from lsmlake.errors import InvalidOption, InvalidSchema
from lsmlake.kernels.keys import check_orderable
from lsmlake.lsm.aggregate.functions_by_name import check_name
from lsmlake.lsm.merge.aggregation import Aggregation
from lsmlake.lsm.merge.deduplicate import Deduplicate
from lsmlake.lsm.merge.first_row import FirstRow
from lsmlake.lsm.merge.partial_update import PartialUpdate
from lsmlake.lsm.merge.rule import MergeRule
from lsmlake.lsm.merge.sequence import SequenceFields
from lsmlake.options.merge_options import AGGREGATION, FIRST_ROW, PARTIAL_UPDATE
from lsmlake.schema.schema import Schema


def rule_of(schema: Schema, where: str = "") -> MergeRule:
    """Returns the rule of the option `merge-engine`. `where` names the table in messages.

    Raises:
        InvalidOption: The options contradict each other or name unsuitable columns.
    """
    options = schema.parsed_options
    sequence = SequenceFields(options.merge.sequence_field, options.merge.sequence_sort_order == "descending")
    _check_sequence(schema, sequence.columns, "sequence.field", where)
    if options.merge.engine == FIRST_ROW:
        return FirstRow()
    if options.merge.engine not in (PARTIAL_UPDATE, AGGREGATION):
        return Deduplicate(sequence, options.merge.delete_retained_ms > 0)
    _check_nullable(schema, where)
    if options.merge.engine == AGGREGATION:
        return Aggregation.of(schema, sequence, where)
    rule = PartialUpdate.of(schema, sequence, where)
    for group in rule.groups:
        _check_sequence(schema, group.sequence.columns, "a sequence group", where)
    return rule


def check_new(schema: Schema, where: str) -> None:
    """As `rule_of`, for a schema that is being made: also refuses options that are harmless in tables that already have them.
    Raises InvalidOption."""
    rule_of(schema, where)
    options = schema.parsed_options
    if options.columns.default_function is not None:
        check_name(options.columns.default_function, where)
    sequence = options.merge.sequence_field
    if len(set(sequence)) < len(sequence):
        raise InvalidOption("sequence.field names a column twice", where=where, found=list(sequence), cure="name it once")


def _check_sequence(schema: Schema, names: tuple[str, ...], role: str, where: str) -> None:
    for name in names:
        if name not in schema.columns.names:
            raise InvalidOption(
                f"{role} names an unknown column",
                where=where,
                expected=f"one of {schema.columns.names}",
                found=repr(name),
                cure="correct the column name",
            )
        try:
            check_orderable(schema.row_columns.field(name).type, name)
        except InvalidSchema as unordered:
            raise InvalidOption(
                f"{role} needs columns of a sortable type", where=where, found=unordered.found, cure="choose other columns"
            ) from unordered


def _check_nullable(schema: Schema, where: str) -> None:
    strict = [field.name for field in schema.columns if not field.nullable and field.name not in schema.primary_key]
    if strict:
        raise InvalidOption(
            f"merge-engine = {schema.parsed_options.merge.engine} may leave a column null",
            where=where,
            expected="nullable columns outside the key",
            found=f"NOT NULL {', '.join(strict)}",
            cure="declare them without NOT NULL",
        )
