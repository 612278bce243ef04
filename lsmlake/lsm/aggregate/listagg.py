"""listagg: joins texts with a delimiter; nulls and blank texts are skipped.

With `distinct`, texts are lists of tokens. The first text is taken unchanged; of each later text the tokens that are not blank
and not yet in the result are appended.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lsmlake.kernels import codes, segments
from lsmlake.lsm.aggregate.function import Function


@dataclass(frozen=True)
class ListAgg(Function):
    delimiter: str
    distinct: bool
    associative_adds = skips_nulls = True

    def reduce(self, values: pa.Array, starts: np.ndarray, retract: np.ndarray | None) -> pa.Array:
        keep = _not_blank(values)
        kept, groups = segments.kept(keep, starts)
        if not len(groups):
            return pa.nulls(len(starts), values.type)
        texts = values.filter(pa.array(keep))
        numbers = segments.numbers(kept, len(texts))
        if self.distinct:
            texts, numbers = self._distinct(texts, kept, numbers)
        borders = np.searchsorted(numbers, np.arange(len(kept) + 1)).astype(np.int32)
        joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(borders), texts), self.delimiter)
        return segments.spread(joined, groups, len(starts))

    def _distinct(self, texts: pa.Array, starts: np.ndarray, numbers: np.ndarray) -> tuple[pa.Array, np.ndarray]:
        """Returns the tokens of the result, and their groups."""
        tokens, lengths = codes.items(pc.split_pattern(texts, self.delimiter))
        of_first_text = np.repeat(np.isin(np.arange(len(texts)), starts), lengths)
        numbers = np.repeat(numbers, lengths)
        new = np.zeros(len(tokens), bool)
        new[np.unique(codes.joint(numbers, codes.equality(tokens)), return_index=True)[1]] = True
        kept = of_first_text | (new & _not_blank(tokens))
        return tokens.filter(pa.array(kept)), numbers[kept]


def _not_blank(texts: pa.Array) -> np.ndarray:
    """Flags the texts that are neither null nor blank."""
    blank = pc.equal(pc.binary_length(pc.utf8_trim_whitespace(texts)), 0)
    return pc.invert(blank.fill_null(True)).to_numpy(zero_copy_only=False)
