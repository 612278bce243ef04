"""Replaces the files of a table by files as another system would have written them: rows in any order."""

from __future__ import annotations

import io
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lsmlake.api.table import Table
from lsmlake.commit.commit import commit
from lsmlake.commit.request import Identity, Request
from lsmlake.files.bucket_files import BucketFiles
from lsmlake.format.data_files import IMPORT, BucketEdit, BucketState, CommitMessage, DataFile
from lsmlake.format.deletion_vector import DeletionVector
from lsmlake.tables.version import Version


def shuffle(table: Table, chance: random.Random, files: int = 3) -> bool:
    """Compact the table and replace the files of each bucket by as many as `files` that hold its rows in any order, and again
    some of them as dead rows. Returns whether there were rows."""
    table.compact(full=True)
    version = Version.latest(table.meta)
    states = [state for state in version.states().values() if state.files]  # a bucket may hold retained deletes only
    compacted = [state for state in states if not state.vectors and all(file.level for file in state.files)]
    messages = [_shuffled(version, state, chance, files) for state in compacted]
    if messages:
        commit(version, Request(Identity(table.meta.env.ids()), messages))
    return bool(messages)


def _shuffled(version: Version, state: BucketState, chance: random.Random, count: int) -> CommitMessage:
    schema, files = version.schema, BucketFiles.of(version, state.bucket)
    parts = []
    for file in state.files:
        with files.open(file) as reader:
            parts.append(reader.read(range(reader.groups), schema.columns.names))
    live = pa.concat_tables(parts)
    dead = live.take(pa.array([row for row in range(live.num_rows) if chance.random() < 0.3], pa.int64()))
    rows = pa.concat_tables([live, dead])
    order = list(range(rows.num_rows))
    chance.shuffle(order)
    added, vectors = [], {}
    for part in np.array_split(np.array(order), min(count, len(order))):
        file = _file(version, state, rows.take(pa.array(part)), chance)
        added.append(file)
        if (part >= live.num_rows).any():
            vectors[file.name] = DeletionVector.of(np.flatnonzero(part >= live.num_rows))
    refs = version.meta.vectors.put(vectors)
    edit = BucketEdit(state.bucket, state.total_buckets, tuple(added), state.files, refs, state)
    puffins = {version.meta.paths.puffin(ref.puffin) for ref in refs.values()}
    return CommitMessage(state.bucket, compact=edit, written=(*files.paths(added), *puffins))


def _file(version: Version, state: BucketState, rows: pa.Table, chance: random.Random) -> DataFile:
    schema, model = version.schema, state.files[0]
    sink = io.BytesIO()
    pq.write_table(rows.cast(schema.columns), sink, row_group_size=chance.choice([1, 2, 100]), store_schema=False)
    keys = [tuple(row.values()) for row in rows.select(schema.key).to_pylist()]
    file = model._replace(
        name=f"data-{version.meta.env.ids()}.parquet",
        bytes=len(sink.getvalue()),
        rows=rows.num_rows,
        min_key=min(keys),
        max_key=max(keys),
        source=IMPORT,
        stats={},
        schema_id=schema.id,
        checksum=None,
        footer_bytes=None,
        footer_checksum=None,
        index=None,
        index_bytes=None,
        number=None,
    )
    with version.meta.env.storage.write(version.meta.paths.data(file)) as target:
        target.write(sink.getvalue())
    return file
