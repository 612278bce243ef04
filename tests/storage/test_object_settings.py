"""Addresses and settings of object stores, and their errors: what is wrong, with a cure, and never a secret."""

from __future__ import annotations

import logging
import pickle
import socket
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from object_servers import SECRET, Server, s3_options

import lsmlake
from lsmlake.errors import InvalidOption, InvalidQuery, LakeError, StorageFailed
from lsmlake.storage.address import address_of, is_same_place
from lsmlake.storage.location import storage_at
from lsmlake.storage.objects import ObjectStorage

AT_ONCE = {"max_retries": 0}


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("s3://b/a/c", ("s3", "s3://b/a/c", "b", "a/c", "")),
        ("s3a://b/", ("s3", "s3a://b", "b", "", "")),
        ("GS://b/a/", ("gcs", "gs://b/a", "b", "a", "")),
        ("az://c/p", ("azure", "az://c/p", "c", "p", "")),
        ("abfss://c@acc.dfs.core.windows.net/p", ("azure", "abfss://c@acc.dfs.core.windows.net/p", "c", "p", "acc")),
        ("memory://name", ("memory", "memory://name", "name", "", "")),
        ("file:///a/b", ("file", "/a/b", "", "/a/b", "")),
        ("file:/a/b", ("file", "/a/b", "", "/a/b", "")),
        ("FILE:////a/b", ("file", "/a/b", "", "/a/b", "")),
        ("file://localhost/a/b", ("file", "/a/b", "", "/a/b", "")),
        ("file://a/b%20c", ("file", "a/b%20c", "", "a/b%20c", "")),
        ("a/file:/b", ("file", "a/file:/b", "", "a/file:/b", "")),
        ("a/b", ("file", "a/b", "", "a/b", "")),
    ],
)
def test_addresses(location: str, expected: tuple[str, ...]):
    assert tuple(address_of(location)) == expected


@pytest.mark.parametrize(
    "location",
    [
        "ftp://b/a",
        "s3:/b/a",
        "dbfs:/a",
        "s3://",
        "s3:///a",
        f"s3://key:{SECRET}@b/a",
        f"az://c/p?sv=1&sig={SECRET}",
        f"s3://b/a#{SECRET}",
        f"s3://b:{SECRET}/a",
        f"abfss://c@{SECRET}/a",
        "s3://b/a/../c",
        "s3://b/a//c",
        "s3://b/.tmp-1",
        "memory://a/b",
        "memory://",
    ],
)
def test_what_is_not_an_address_is_refused_without_its_secrets(location: str):
    with pytest.raises(InvalidQuery) as caught:
        lsmlake.connect(location)
    assert SECRET not in shown(caught.value) and caught.value.cure


@pytest.mark.parametrize(
    "options",
    [
        {"secret": SECRET},
        {"secret_access_key": SECRET, "no_such_option": SECRET},
        {"timeout": SECRET},
        {"retry_timeout": SECRET},
        {"max_retries": SECRET},
        {"allow_http": SECRET},
        {"endpoint": SECRET, "region": [SECRET], "checksum_algorithm": SECRET},
        {"profile": "nobody", "secret_access_key": SECRET},
    ],
)
def test_an_unknown_or_wrong_option_is_refused_without_values(options: dict[str, object], monkeypatch, tmp_path: Path):
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(InvalidOption) as caught:
        lsmlake.connect("s3://b/a", storage_options=options)
    assert SECRET not in shown(caught.value) and caught.value.cure


@pytest.mark.parametrize(
    ("location", "options", "words"),
    [
        ("s3://b", {"region": None}, "storage option 'region': there is no value"),
        ("s3://b", {"proxy_url": None}, "storage option 'proxy_url': there is no value"),
        ("s3://b", {"secret_access_key": SECRET.encode()}, "storage option 'secret_access_key': the value has the wrong type"),
        ("s3://b", {"endpoint": f"ftp://{SECRET}"}, "storage option 'endpoint': not the address of a server"),
        ("s3://b", {"aws_endpoint_url": "localhost:9000"}, "'aws_endpoint_url': not the address of a server"),
        ("s3://b", {"timeout": True}, "storage option 'timeout': not a number of seconds"),
        ("s3://b", {"region": "x", "allow_http": "maybe"}, "a storage option does not fit.*found 'allow_http';"),
        ("s3://b", {"region": "x", "max_retries": "3"}, "found 'max_retries';"),
        ("s3://b", {"region": "x", "aws_region": "y", "timeout": "5s"}, "found 'region' or 'aws_region';"),
        ("s3://b", {"bucket": "c"}, "found 'bucket';"),
        ("s3://b", {"fs.s3a.access.key": SECRET}, r"unknown.*found 'fs\.s3a\.access\.key'"),
        ("gs://b", {"endpoint": "http://a", "base_url": "http://b"}, "another name of 'base_url'"),
        ("az://c", {"account_name": "a", "account_key": SECRET}, "found 'account_key';"),
        ("abfss://c@acc.dfs.core.windows.net/p", {"account_name": "other"}, "another account, expected 'acc', found 'other'"),
    ],
)
def test_the_option_that_does_not_fit_is_named(location: str, options: dict[str, object], words: str, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidOption, match=words) as caught:
        lsmlake.connect(location, storage_options=options)
    assert SECRET not in shown(caught.value) and caught.value.cure


def test_a_cache_is_a_directory_of_this_machine(tmp_path: Path):
    with pytest.raises(InvalidQuery, match="cache: the cache is not in this machine"):
        lsmlake.connect(str(tmp_path), cache="s3://b/cache")


@pytest.mark.parametrize("options", [SECRET, [SECRET], {7: SECRET}])
def test_options_of_a_wrong_type_are_refused_without_values(options: object):
    with pytest.raises(InvalidQuery, match="storage_options has the wrong type") as caught:
        lsmlake.connect("s3://b/a", storage_options=options)
    assert SECRET not in shown(caught.value)


def test_other_stores_have_no_options(tmp_path: Path):
    for location in (str(tmp_path), f"file://{tmp_path}", "memory://a"):
        with pytest.raises(InvalidOption, match="settings of object stores"):
            lsmlake.connect(location, storage_options={"region": "x"})


def shown(error: BaseException) -> str:
    """Every text that a program or a log could make of an error."""
    texts, one = ["".join(traceback.format_exception(error))], error
    while one is not None:
        texts += [str(one), repr(one), repr(one.args), repr(vars(one)), str(pickle.dumps(one))]
        one = one.__cause__ or one.__context__
    return "\n".join(texts)


def deaf() -> str:
    """The address of a server that accepts connections and never answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    _open.append(listener)
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


_open: list[socket.socket] = []


def closed() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


VERBS: list[Callable[[ObjectStorage], object]] = [
    lambda storage: storage.read("a"),
    lambda storage: storage.read_from_end("a", 10, 5),
    lambda storage: storage.put_if_absent("a", b"x"),
    lambda storage: storage.write("a").__enter__(),
    lambda storage: list(storage.list("")),
    lambda storage: list(storage.folders("")),
    lambda storage: storage.size("a"),
    lambda storage: storage.delete("a"),
    lambda storage: storage.delete_all(["a", "b"]),
    lambda storage: storage.copy("a", "b"),
]
SERVERS = {
    "unknown name": (lambda: "https://no-such-host.invalid", "the name of the server is unknown.*check the endpoint"),
    "no server": (closed, "no connection.*check the endpoint"),
    "no answer": (deaf, "no answer in time.*timeout"),
}


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_that_cannot_be_reached(name: str):
    endpoint, expected = SERVERS[name]
    storage = storage_at("s3://b/w", {**s3_options(endpoint()), **AT_ONCE, "timeout": 0.1})
    for verb in VERBS:
        with pytest.raises(StorageFailed, match=rf"s3://b/w.*cannot \w+.*{expected}") as caught:
            verb(storage)
        assert SECRET not in shown(caught.value)


def test_a_bucket_that_does_not_exist(s3: Server):
    storage = storage_at("s3://missing/w", s3.options)
    without_body = (VERBS[6],)  # HEAD: the answer does not tell the bucket from the object
    for verb in VERBS:
        if verb not in without_body:
            with pytest.raises(StorageFailed, match=r"the bucket does not exist.*create the bucket") as caught:
                verb(storage)
            assert SECRET not in shown(caught.value)
    with pytest.raises(StorageFailed, match="the bucket does not exist"):
        lsmlake.connect("s3://missing/w", storage_options=s3.options).table("d.t")


def test_no_text_of_a_lake_shows_its_secrets(s3: Server, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    lake = lsmlake.connect(s3.warehouse(), storage_options=s3.options)
    lake.create_database("d")
    table = lake.create_table("d.t", "k BIGINT, v BIGINT", primary_key=["k"])
    table.upsert({"k": [1], "v": [2]}, compact=False)
    scan = table.scan(where="v = 2")
    shows = [lake, lake.env, lake.env.storage, table, table.meta, scan, scan.plan(), scan.explain(), table.changes(1)]
    texts = [str(one) + repr(one) for one in shows] + [lake._repr_html_(), caplog.text]
    texts.append(str(lake.sql("EXPLAIN SELECT * FROM d.t").fetchall()))
    storage = lake.env.storage
    for entry in storage.list(""):
        with storage.read(entry.path) as file:
            texts.append(file.read().decode("latin-1"))
    assert SECRET not in "\n".join(texts)
    assert SECRET.encode() in pickle.dumps(storage), "a task needs the options that were given"


def test_credentials_of_the_environment_are_not_pickled(s3: Server, monkeypatch: pytest.MonkeyPatch):
    options = dict(s3.options)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", str(options.pop("secret_access_key")))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", str(options.pop("access_key_id")))
    storage = storage_at(s3.warehouse(), options)
    assert storage.put_if_absent("a", b"x")
    assert SECRET.encode() not in pickle.dumps(storage)
    assert pickle.loads(pickle.dumps(storage)).size("a") == 1


def test_keys_of_a_profile(s3: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials").write_text(
        f"[work]\naws_access_key_id = key\naws_secret_access_key = {SECRET}\n[sso]\nregion = x\n"
    )
    (tmp_path / "config").write_text(f"[profile work]\nregion = us-east-1\nendpoint_url = {s3.endpoint}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    assert storage_at(s3.warehouse(), {"profile": "work"}).put_if_absent("a", b"")
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert storage_at(s3.warehouse()).put_if_absent("a", b"")
    with pytest.raises(InvalidOption, match=r"profile 'sso'.*no static keys.*export-credentials"):
        storage_at(s3.warehouse(), {"profile": "sso"})


def test_a_text_of_an_error_that_travels_keeps_its_class():
    error = StorageFailed("cannot read", where="s3://b", found="x", cure="y")
    assert isinstance(pickle.loads(pickle.dumps(error)), LakeError)


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("s3://b/a c", "s3a://b/a c/d.db/dt=\\*.parquet"),
        ("s3a://b", "s3a://b/d.db/dt=\\*.parquet"),
        ("gs://b/a", "gs://b/a/d.db/dt=\\*.parquet"),
        ("abfss://c@acc.dfs.core.windows.net/p", "abfss://c@acc.dfs.core.windows.net/p/d.db/dt=\\*.parquet"),
        ("abfs://c@acc.blob.core.windows.net/p", "abfss://c@acc.dfs.core.windows.net/p/d.db/dt=\\*.parquet"),
        ("az://c/p", "abfss://c@named.dfs.core.windows.net/p/d.db/dt=\\*.parquet"),
    ],
)
def test_addresses_for_file_systems_of_hadoop(location: str, expected: str):
    options = {"account_name": "named"} if location.startswith("az:") else {}
    assert storage_at(location, options).uri("d.db/dt=*.parquet") == expected


def test_the_account_of_the_environment_is_that_of_the_address(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "other")
    assert storage_at("az://c").uri("f") == "abfss://c@other.dfs.core.windows.net/f"
    assert storage_at("az://c", {"azure_storage_account_name": "named"}).uri("f") == "abfss://c@named.dfs.core.windows.net/f"


@pytest.mark.parametrize(
    ("location", "options", "expected"),
    [
        ("az://c/p", {"account_name": "named"}, "abfss://c@named.dfs.core.windows.net/p/d.db/t"),
        ("abfs://c/p", {"account_name": "named"}, "abfss://c@named.dfs.core.windows.net/p/d.db/t"),
        ("abfs://c@acc.blob.core.windows.net/p", {}, "abfss://c@acc.dfs.core.windows.net/p/d.db/t"),
        ("az://c/p", {"use_emulator": True}, "az://c/p/d.db/t"),
        ("s3://b/p", {}, "s3://b/p/d.db/t"),
        ("s3a://b", {}, "s3a://b/d.db/t"),
        ("gs://b/p", {}, "gs://b/p/d.db/t"),
    ],
)
def test_addresses_for_readers_of_iceberg(location: str, options: dict[str, object], expected: str):
    """PyIceberg and Java know Azure by abfss:// with the account only."""
    assert storage_at(location, options).url("d.db/t") == expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("az://c/p/t", "abfss://c@acc.dfs.core.windows.net/p/t/", True),
        ("abfs://c/p/t", "abfss://c@acc.dfs.core.windows.net/p/t", True),
        ("abfss://c@other.dfs.core.windows.net/p", "abfss://c@acc.dfs.core.windows.net/p", False),
        ("az://c/p/t", "az://c/p/u", False),
        ("az://c/p", "az://d/p", False),
        ("s3a://b/p", "s3://b/p", True),
        ("s3://b/p", "gs://b/p", False),
        ("file:/a/b", "file:///a/b", True),
        ("/a/b", "file:///a/c", False),
        ("hdfs://n/a", "hdfs://n/a/", True),
        ("hdfs://n/a", "s3://n/a", False),
    ],
)
def test_spellings_of_one_place(one: str, other: str, same: bool):
    assert is_same_place(one, other) is is_same_place(other, one) is same


def test_hadoop_has_no_address_of_an_emulator_of_azure():
    with pytest.raises(InvalidQuery, match="the storage account, which is unknown"):
        storage_at("az://c/p", {"use_emulator": True}).uri("f")
