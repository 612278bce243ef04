"""`Scan.to_torch`: batches of tensors, shared by workers and processes. Torch is large: where it is not installed, NumPy stands
in for the functions that lsmlake calls."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from strategies import new_lake

import lsmlake
from lsmlake import Scan
from lsmlake.errors import InvalidData, InvalidQuery, MissingDependency

COLUMNS = "id BIGINT NOT NULL, n SMALLINT, x DOUBLE, f FLOAT, b BOOLEAN, e ARRAY<FLOAT>, s STRING"


class Array(np.ndarray):
    """An array with the methods of a tensor that lsmlake calls."""

    def clone(self) -> Array:
        return self.copy()

    def bool(self) -> Array:
        return self.astype(np.bool_)


@pytest.fixture
def torch(monkeypatch) -> ModuleType:
    if importlib.util.find_spec("torch"):
        import torch

        return torch
    names = "torch", "torch.utils", "torch.utils.data", "torch.distributed"
    fakes = {name: ModuleType(name) for name in names}
    for name, fake in fakes.items():
        monkeypatch.setitem(sys.modules, name, fake)
        if "." in name:
            setattr(fakes[name.rpartition(".")[0]], name.rpartition(".")[2], fake)
    data, distributed = fakes["torch.utils.data"], fakes["torch.distributed"]
    fakes["torch"].from_dlpack = lambda values: np.from_dlpack(values).view(Array)
    data.IterableDataset, data.get_worker_info = object, lambda: None
    distributed.is_available, distributed.is_initialized = lambda: True, lambda: False
    return fakes["torch"]


@pytest.fixture
def scan(tmp_path) -> Scan:
    lake = lsmlake.connect(tmp_path)
    lake.create_database("d")
    table = lake.create_table("d.t", COLUMNS, primary_key=["id"], options={"bucket": 3})
    rows = [{"id": k, "n": k, "x": k / 2, "f": k, "b": k % 2 == 0, "e": [k, k + 1], "s": "a"} for k in range(25)]
    table.upsert(rows, cast=True, compact=True)
    return table.scan(columns=["id", "n", "x", "f", "b", "e"])


def ids(batches: object) -> list[int]:
    return [one for batch in batches for one in batch["id"].tolist()]


def test_batches_hold_each_row_once_as_tensors(torch, scan):
    batches = list(scan.to_torch(batch_size=4))
    assert sorted(ids(batches)) == list(range(25)) and max(len(batch["id"]) for batch in batches) == 4
    for batch in batches:
        for k, n, x, b, e in zip(*(batch[name].tolist() for name in ("id", "n", "x", "b", "e")), strict=True):
            assert (n, x, b, e) == (k, k / 2, k % 2 == 0, [k, k + 1])
    kinds = {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in batches[0].items()}
    assert kinds == {"id": "int64", "n": "int16", "x": "float64", "f": "float32", "b": "bool", "e": "float32"}
    batches[0]["id"][0] = -1  # a tensor owns its values
    assert sorted(ids(scan.to_torch())) == list(range(25))


def test_workers_and_processes_share_the_rows(torch, scan, monkeypatch):
    batches = scan.to_torch()
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 2, raising=False)
    shares = []
    for rank in range(2):
        monkeypatch.setattr("torch.distributed.get_rank", lambda rank=rank: rank, raising=False)
        for worker in range(2):
            monkeypatch.setattr("torch.utils.data.get_worker_info", lambda one=worker: SimpleNamespace(id=one, num_workers=2))
            shares.append(ids(batches))
    assert sorted(one for share in shares for one in share) == list(range(25))
    assert sum(map(bool, shares)) == 3  # one split for each of the three files


def test_another_process_can_read_the_batches(torch, scan):
    batches = scan.to_torch(batch_size=7)
    assert ids(pickle.loads(pickle.dumps(batches))) == ids(batches)


@pytest.mark.parametrize("workers", [0, 2, 5])
def test_the_workers_of_a_data_loader_give_each_row_once_in_every_epoch(scan, tmp_path, workers):
    data = pytest.importorskip("torch.utils.data")
    lsmlake.connect(tmp_path).table("d.t").upsert(
        [{"id": 99, "n": 9, "x": 1, "f": 1, "b": True, "e": [1, 2], "s": ""}], cast=True
    )
    loader = data.DataLoader(scan.to_torch(batch_size=4), batch_size=None, num_workers=workers)
    for _ in range(2):
        assert sorted(ids(loader)) == [*range(25), 99]
    nothing = lsmlake.connect(tmp_path).table("d.t").scan(columns=["id"], where="id < 0")
    assert list(data.DataLoader(nothing.to_torch(), batch_size=None, num_workers=workers)) == []


@pytest.mark.parametrize(
    ("columns", "where", "error", "words"),
    [
        (["id", "s"], None, InvalidQuery, "column 's'.*no tensors of this type"),
        (["n"], None, InvalidData, r"column 'n'.*no nulls.*where='n IS NOT NULL'"),
        (["e"], "e IS NOT NULL", InvalidData, r"column 'e'.*one length, found \[1, 2\]"),
    ],
)
def test_what_is_no_tensor_is_refused_by_its_name(torch, columns, where, error, words):
    table = new_lake().create_table("d.t", COLUMNS, primary_key=["id"], options={"bucket": 1})
    blank = dict.fromkeys(("n", "x", "f", "b", "s"))
    table.upsert([{"id": 1, **blank, "e": [1.0]}, {"id": 2, **blank, "e": [1.0, 2.0]}], cast=True)
    with pytest.raises(error, match=words):
        list(table.scan(columns=columns, where=where).to_torch())


def test_without_torch_the_error_says_what_to_install(scan, monkeypatch):
    for name in ("torch", "torch.utils.data"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependency, match="run: pip install torch"):
        scan.to_torch()
    with pytest.raises(InvalidQuery, match="not a number of rows"):
        scan.to_torch(batch_size=0)
