"""Reading side of lookup: which rows of older files hold the given keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lsmlake.format.files import Bucket, DataFile
from lsmlake.format.schema import Schema
from lsmlake.lsm import lookup
from lsmlake.store.data_file import DataReader
from lsmlake.store.metadata import Metadata


def find_positions(
    meta: Metadata, schema: Schema, bucket: Bucket, keys: pa.Table, files: Sequence[DataFile]
) -> dict[str, np.ndarray]:
    """File name -> row positions (int64, ascending) of `keys` in it, whether alive or dead; files without a hit are left out.

    `keys`: the key columns, ascending, unique. Reads the key columns of the row groups that can hold one of them, nothing else.
    """
    found = {}
    for file, (start, stop) in zip(files, lookup.slices(keys, files), strict=True):
        if start == stop:
            continue
        positions = _find_in(meta, schema, bucket, keys.slice(start, stop - start), file)
        if len(positions):
            found[file.name] = positions
    return found


def _find_in(meta: Metadata, schema: Schema, bucket: Bucket, keys: pa.Table, file: DataFile) -> np.ndarray:
    with DataReader(meta.env, meta.paths.data(bucket, file.name), file, schema) as reader:
        low, high, _ = reader.group_bounds(schema.key[0])
        hits = [
            lookup.find(keys, chunk.table)[1] + chunk.start
            for chunk in reader.chunks(schema.key, lookup.groups(keys, low, high).tolist(), rows=1 << 22)
        ]
    return np.concatenate(hits) if hits else np.zeros(0, np.int64)
