"""Random alterations between random writes: Spark finds the rows that the embedded reader finds, itself checked by a model."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from effort import scaled
from spark_support import same
from strategies import literal

import lsmlake
from lsmlake.spark.frame_types import to_spark
from lsmlake.types.ddl import parse_columns
from lsmlake.types.type_text import format_type

pytestmark = [pytest.mark.spark, pytest.mark.in_turn]

ENGINES = {
    "deduplicate": {},
    "first-row": {"merge-engine": "first-row"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.default-aggregate-function": "last_non_null_value"},
}
FREE = ("a", "b", "c", "e", "g")
WIDER = {"TINYINT": ("INT", "DOUBLE"), "INT": ("BIGINT", "DECIMAL(20,2)"), "FLOAT": ("DOUBLE",), "DATE": ("TIMESTAMP_NTZ",)}


def some(chance: random.Random, type_: pa.DataType) -> object:
    """A value of few, null among them, that every wider type has."""
    code = chance.randrange(6)
    if code == 0:
        return None
    if pa.types.is_struct(type_):
        return {field.name: some(chance, field.type) for field in type_}
    if pa.types.is_string(type_):
        return f"s{code}"
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return dt.date(2026, 1, code) if pa.types.is_date(type_) else dt.datetime(2026, 1, code)
    return Decimal(code) if pa.types.is_decimal(type_) else code


def alteration(chance: random.Random, schema: pa.Schema) -> lsmlake.Alteration:
    """One that the table accepts: of a column, or of a field of the struct `p`."""
    inside = chance.random() < 0.3
    prefix, fields = ("p.", list(schema.field("p").type)) if inside else ("", [f for f in schema if f.name not in ("k", "p")])
    free = chance.choice([name for name in FREE if name not in [field.name for field in fields]])
    field = chance.choice(fields)
    verb = chance.choice(["add", "rename", "drop", "widen", "move"])
    wider = WIDER.get(format_type(field.type))
    if verb == "drop" and len(fields) > 1:
        return lsmlake.drop_column(prefix + field.name)
    if verb == "rename":
        return lsmlake.rename_column(prefix + field.name, free)
    if verb == "widen" and wider:
        return lsmlake.change_type(prefix + field.name, chance.choice(wider))
    if verb == "move":
        return lsmlake.move_column(prefix + field.name, first=True)
    if len(fields) + 1 == len(FREE):
        return lsmlake.drop_column(prefix + field.name)
    type_ = chance.choice(["TINYINT", "INT", "FLOAT", "DATE", "STRING"])
    default = some(chance, parse_columns(f"c {type_}").field("c").type)
    return lsmlake.add_column(prefix + free, type_, default=default, first=chance.random() < 0.5)


def condition(chance: random.Random, rows: pa.Table) -> str:
    """A predicate about one column, with a value that is there."""
    name = chance.choice([field.name for field in rows.schema if field.name != "p"])
    value = chance.choice(rows[name].to_pylist() or [None])
    if value is None:
        return f"{name} IS NULL"
    return f"{name} {chance.choice(['=', '<>', '<', '>='])} {literal(value, format_type(rows.schema.field(name).type))}"


@pytest.mark.parametrize("engine", ENGINES)
def test_random_alterations_between_writes(spark, spark_lake, lake, engine):
    for seed in range(scaled(1)):
        chance = random.Random(f"{engine} {seed}")
        options = ENGINES[engine] | {"bucket": 2, "deletion-vectors.enabled": chance.choice(["true", "false"])}
        ddl = "k INT, a TINYINT, b STRING, p STRUCT<a: INT, b: STRING>"
        table = lake.create_table(f"d.r{seed}", ddl, primary_key=["k"], options=options)
        on_spark = spark_lake.table(table.name)
        for step in range(4):
            rows = pa.Table.from_pylist(
                [{f.name: some(chance, f.type) for f in table.schema} | {"k": chance.randrange(12)} for _ in range(5)],
                table.schema,
            )
            batch = spark.createDataFrame(rows, to_spark(rows.schema)) if step == 2 else rows
            (on_spark if step == 2 else table).upsert(batch, compact=chance.choice([None, False]))
            for _ in range(chance.randrange(1, 4)):
                (table if chance.random() < 0.8 else on_spark).alter(alteration(chance, table.schema))
            found = table.scan().to_arrow()
            names = chance.sample(found.column_names, chance.randrange(1, len(found.column_names) + 1))
            how = {"where": condition(chance, found), "columns": names} if step else {}
            same(on_spark.scan(**how).to_spark(chance.choice(["native", "auto", "arrow"])), table.scan(**how).to_arrow())
        if seed % 2 == 0:
            on_spark.compact(full=True)
            same(on_spark.df(), found)
            assert table.verify() == []
