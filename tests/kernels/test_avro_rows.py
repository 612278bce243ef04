"""Bytes of Avro equal those of fastavro, for random values of random schemas, also for slices and for null structs."""

from __future__ import annotations

import io
import random

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from effort import scaled

from lsmlake.kernels.avro_rows import encoded, varints

PLAIN = {
    "boolean": (pa.bool_(), lambda chance: chance.random() < 0.5),
    "int": (pa.int32(), lambda chance: chance.choice([0, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31), chance.randrange(10**6)])),
    "long": (pa.int64(), lambda chance: chance.choice([2**63 - 1, -(2**63), 0, 8191, -8193, chance.randrange(-(2**40), 2**40)])),
    "float": (pa.float32(), lambda chance: float(np.float32(chance.choice([0.0, -0.0, 1.5, float("inf"), chance.random()])))),
    "double": (pa.float64(), lambda chance: chance.choice([0.0, 1e300, -float("inf"), chance.random()])),
    "string": (pa.string(), lambda chance: chance.choice(["", "a", "ü" * chance.randrange(90), "x" * 63, "x" * 64])),
    "bytes": (pa.binary(), lambda chance: chance.randbytes(chance.choice([0, 1, 63, 64, 9000]))),
}


def drawn(chance: random.Random, depth: int, names: list[str]) -> tuple[object, pa.DataType, object]:
    """A type of Avro, that of Arrow, and a function that draws a value."""
    kind = chance.choice([*PLAIN, "array", "record"]) if depth else chance.choice(list(PLAIN))
    if kind == "array":
        node, type_, value = optional(chance, depth, names)
        lists = lambda chance: [value(chance) for _ in range(chance.choice([0, 1, 2, 70]))]  # noqa: E731
        return {"type": "array", "items": node}, pa.list_(type_), lists
    if kind == "record":
        names.append(f"R{len(names)}")
        record = {"type": "record", "name": names[-1]}
        inner = {f"f{number}": optional(chance, depth, names) for number in range(chance.randrange(1, 4))}
        fields = [{"name": name, "type": node} for name, (node, _, _) in inner.items()]
        type_ = pa.struct([(name, its) for name, (_, its, _) in inner.items()])
        values = lambda chance: {name: value(chance) for name, (_, _, value) in inner.items()}  # noqa: E731
        return {**record, "fields": fields}, type_, values
    return (kind if chance.random() < 0.5 else {"type": kind}), *PLAIN[kind]


def optional(chance: random.Random, depth: int, names: list[str]) -> tuple[object, pa.DataType, object]:
    node, type_, value = drawn(chance, depth - 1, names)
    if chance.random() < 0.3:
        return node, type_, value
    return ["null", node], type_, lambda chance: None if chance.random() < 0.3 else value(chance)


def written(value: object, schema: object) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return stream.getvalue()


@pytest.mark.parametrize("seed", range(scaled(60)))
def test_bytes_equal_those_of_fastavro(seed: int):
    chance = random.Random(seed)
    node, type_, value = optional(chance, 3, [])
    values = [value(chance) for _ in range(chance.choice([1, 2, 40]))]
    schema = fastavro.parse_schema(node)
    array = pa.array(values, type_)
    expected = [written(one, schema) for one in values]
    assert encoded(array, node).to_pylist() == expected
    assert encoded(array.slice(1), node).to_pylist() == expected[1:]
    assert encoded(array.slice(0, 0), node).to_pylist() == []


def test_integers_of_all_sizes():
    numbers = [sign * 2**bits + step for bits in range(63) for step in (-1, 0, 1) for sign in (1, -1)]
    schema = fastavro.parse_schema("long")
    for some in (numbers, [0, 1], [2**63 - 1, -(2**63)]):
        assert varints(np.array(some, np.int64)).to_pylist() == [written(one, schema) for one in some]
    assert varints(np.empty(0, np.int64)).to_pylist() == []
