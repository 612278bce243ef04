"""hll_sketch and theta_sketch: unions of Apache DataSketches as their serialised bytes.

The bytes are those of the DataSketches libraries in every language, so also of Paimon and of Spark: what `hll_sketch_agg`,
`hll_union_agg`, `theta_sketch_agg` and `theta_union_agg` make can be written to such a column, and `hll_sketch_estimate`,
`theta_sketch_estimate` and the unions read what comes out.

As in Paimon a union of HLL sketches is a compact HLL_4 sketch (smaller than Spark's HLL_8), as coarse as the coarsest of its
inputs, and a union of theta sketches keeps 4,096 entries. Theta sketches must have been made with the default seed.
"""

from __future__ import annotations

from datasketches import compact_theta_sketch, hll_sketch, hll_union, tgt_hll_type, theta_union

KIND_HLL = "serialised HLL sketches of Apache DataSketches"
KIND_THETA = "serialised theta sketches of Apache DataSketches"
_THETA_ENTRIES_LOG2 = 12


def unite_hll(parts: list[bytes]) -> bytes:
    sketches = [hll_sketch.deserialize(part) for part in parts]
    union = hll_union(min(sketch.lg_config_k for sketch in sketches))
    for sketch in sketches:
        union.update(sketch)
    return union.get_result(tgt_hll_type.HLL_4).serialize_compact()


def unite_theta(parts: list[bytes]) -> bytes:
    union = theta_union(_THETA_ENTRIES_LOG2)
    for part in parts:
        union.update(compact_theta_sketch.deserialize(part))
    return union.get_result().serialize()
