"""The rows of a scan as tensors of torch: `Scan.to_torch`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from lsmlake.api.public_types import TorchDataset
from lsmlake.api.scan_split import ScanSplit
from lsmlake.errors import InvalidData, InvalidQuery
from lsmlake.extras import need

_CURE = "leave the column out by columns=, or compute a number from it by lake.sql"


def torch_dataset(splits: Sequence[ScanSplit], schema: pa.Schema, batch_size: int) -> TorchDataset:
    """See `Scan.to_torch`. Raises InvalidQuery, MissingDependency."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise InvalidQuery("not a number of rows", where="to_torch()", expected="1 or more", found=batch_size, cure="correct it")
    for field in schema:
        if not _is_number(field.type) and not (_is_list(field.type) and _is_number(field.type.value_type)):
            raise InvalidQuery(
                "torch has no tensors of this type",
                where=f"to_torch(), column {field.name!r}",
                expected="BOOLEAN, an integer, FLOAT, DOUBLE, or an ARRAY of these",
                found=field.type,
                cure=_CURE,
            )
    data = need("torch.utils.data", "to_torch()")

    class ScanDataset(data.IterableDataset):
        """Batches of the rows of a scan."""

        def __iter__(self) -> Iterator[dict[str, object]]:
            for split in splits[_share()]:
                yield from _batches(split, batch_size)

        def __reduce__(self) -> tuple[object, ...]:
            return torch_dataset, (splits, schema, batch_size)

    return ScanDataset()


def _share() -> slice:
    """The splits of this worker of a DataLoader in this process of a distributed group."""
    worker, distributed = need("torch.utils.data", "to_torch()").get_worker_info(), need("torch.distributed", "to_torch()")
    number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
    if distributed.is_available() and distributed.is_initialized():
        number += workers * distributed.get_rank()
        workers *= distributed.get_world_size()
    return slice(number, None, workers)


def _batches(split: ScanSplit, batch_size: int) -> Iterator[dict[str, object]]:
    held: list[pa.Table] = []
    for batch in split.to_batches():
        held.append(pa.Table.from_batches([batch]))
        rows = pa.concat_tables(held)
        whole = rows.num_rows - rows.num_rows % batch_size
        yield from map(partial(_tensors, rows, batch_size), range(0, whole, batch_size))
        held = [rows.slice(whole)]
    if held and held[0].num_rows:
        yield _tensors(held[0], batch_size, 0)


def _tensors(rows: pa.Table, size: int, start: int) -> dict[str, object]:
    part = rows.slice(start, size)
    return {name: _tensor(part[name].combine_chunks(), name) for name in part.column_names}


def _tensor(values: pa.Array, name: str) -> object:
    """A tensor that owns its values."""
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    inner = values.flatten() if _is_list(values.type) else values
    if values.null_count or inner.null_count:
        cure = f"read the rows with where={f'{name} IS NOT NULL'!r}, or replace nulls by coalesce in lake.sql"
        raise InvalidData("a tensor has no nulls", where=f"to_torch(), column {name!r}", cure=cure)
    tensor = _owned(inner.cast(pa.uint8())).bool() if pa.types.is_boolean(inner.type) else _owned(inner)
    if inner is values:
        return tensor
    lengths = values.value_lengths().unique()
    if len(lengths) != 1:
        found = sorted(lengths.to_pylist())
        raise InvalidData("arrays of a tensor have one length", where=f"to_torch(), column {name!r}", found=found, cure=_CURE)
    return tensor.reshape(len(values), -1)


def _owned(values: pa.Array) -> object:
    torch = need("torch", "to_torch()")
    return torch.from_dlpack(values).clone()


def _is_number(type_: pa.DataType) -> bool:
    return pa.types.is_boolean(type_) or pa.types.is_integer(type_) or pa.types.is_floating(type_)


def _is_list(type_: pa.DataType) -> bool:
    return pa.types.is_list(type_) or pa.types.is_large_list(type_)
