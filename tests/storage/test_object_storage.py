"""Object stores: the contract of a storage against servers that speak their protocols, and what only they do."""

from __future__ import annotations

import pickle

import pytest
from object_servers import Server, azure_server
from storage_contract import StorageContract, paths, put

from lsmlake.errors import InvalidQuery
from lsmlake.storage.location import storage_at
from lsmlake.storage.storage import read_bytes


class ObjectStorageContract(StorageContract):
    @pytest.fixture
    def storage(self, server: Server):
        return storage_at(server.warehouse(), server.options)

    def test_it_does_not_rename(self, storage):
        put(storage, "a/t/x", b"")
        with pytest.raises(InvalidQuery, match=r"cannot rename a table.*create a table with the new name"):
            storage.move("a/t", "a/u")
        assert paths(storage) == ("a/t/x",)

    def test_large_files_are_uploaded_in_parts_and_read_by_ranges(self, storage):
        data = bytes(range(256)) * (80_000)
        with storage.write("f") as sink:
            for start in range(0, len(data), 1 << 20):
                sink.write(data[start : start + (1 << 20)])
            assert (storage.size("f"), paths(storage), sink.tell()) == (None, (), len(data))
        with storage.read("f") as file:
            assert file.size() == len(data)
            assert file.read_at(1_000, 9_999_999) == data[9_999_999:10_000_999]
            file.seek(0)
            assert file.read() == data

    def test_parts_of_a_large_file_that_failed_are_removed(self, storage):
        with pytest.raises(ZeroDivisionError), storage.write("f") as sink:
            sink.write(bytes(20_000_000))
            raise ZeroDivisionError
        assert (storage.size("f"), paths(storage)) == (None, ())

    def test_it_pickles(self, storage):
        put(storage, "f", b"x")
        again = pickle.loads(pickle.dumps(storage))
        assert (again.root, read_bytes(again, "f")) == (storage.root, b"x")


@pytest.fixture(scope="module")
def azure():
    with azure_server() as server:
        yield server


class TestS3(ObjectStorageContract):
    @pytest.fixture
    def server(self, s3):
        return s3


class TestAzure(ObjectStorageContract):
    @pytest.fixture
    def server(self, azure):
        return azure
