"""The package on its way to Python processes of Spark that do not have it installed.

`ship` gives it to the executors of a session, as a zip file beside the other artifacts of the session. Two kinds of process see
no artifacts: those in which Spark plans and reads a Python data source for a stream, and, on Spark Connect, those that run
foreachBatch functions. What is pickled for them carries the source code of the package and makes it importable where it arrives.

The functions and classes that do this stand inside of functions: cloudpickle then takes them by value, where it would otherwise
name a module that the other process does not have.
"""

from __future__ import annotations

import atexit
import json
import pickle
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib import import_module, invalidate_caches
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.resources import files
from importlib.util import find_spec, spec_from_loader
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from pyspark.sql.datasource import DataSource

_SHIPPED = "lsmlake.shipped"
"""Of a session: the digest of the package that was shipped."""

Package = bytes
"""The source code of the package, compressed."""


def ship(spark) -> None:
    """Give the package to the executors of a session, and to streams and tables by format. Does nothing the second time."""
    digest = sha256(_package()).hexdigest()[:12]
    if spark.conf.get(_SHIPPED, None) != digest:
        spark.addArtifact(_archive(f"lsmlake-{digest}.zip"), pyfile=True)
        spark.conf.set(_SHIPPED, digest)


def shipped(spark) -> Package | None:
    """What pickles of this session carry: the package, if it was shipped."""
    return _package() if spark.conf.get(_SHIPPED, None) else None


def _sources() -> dict[str, str]:
    """The text of every module by its path, also if the package itself lies in a zip file."""

    def below(folder, path: str) -> Iterator[tuple[str, str]]:
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if entry.is_dir():
                yield from below(entry, f"{path}/{entry.name}")
            elif entry.name.endswith(".py"):
                yield f"{path}/{entry.name}", entry.read_text("utf-8")

    return dict(below(files("lsmlake"), "lsmlake"))


@cache
def _archive(name: str) -> str:
    """The package as a zip file. It stays until the process ends, since executors that come later fetch it too."""
    folder = tempfile.mkdtemp(prefix="lsmlake-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, name)
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for module, source in _sources().items():
            archive.writestr(ZipInfo(module), source)  # without times: the same package is the same file
    return str(path)


@cache
def _package() -> Package:
    return zlib.compress(json.dumps(_sources()).encode(), 9)


def carried(package: Package | None, function: Callable[..., object], *args: object) -> tuple:
    """What `__reduce__` of a value returns, so that `function(*args)` makes it again in a process without the package."""
    if package is None:
        return function, args
    return _loader(), (package, pickle.dumps((function, args)))


def restored(kind: type, state: Mapping[str, object]) -> object:
    """An object from its attributes."""
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


def _loader() -> Callable[[Package, bytes], object]:
    arrive = _arrival()

    def load(package, data):
        arrive(package)
        function, args = pickle.loads(data)
        return function(*args)

    return load


def _arrival() -> Callable[[Package | None], None]:
    """A function that makes `import lsmlake` work in its process, if it can. Raises ImportError with the cure."""

    class Carried(MetaPathFinder, InspectLoader):
        """Imports modules from their source code in memory."""

        def __init__(self, sources: Mapping[str, str]) -> None:
            self.sources = sources

        def _path(self, module):
            path = module.replace(".", "/")
            return next((name for name in (f"{path}/__init__.py", f"{path}.py") if name in self.sources), None)

        def find_spec(self, fullname, path=None, target=None):
            return spec_from_loader(fullname, self, origin=self._path(fullname)) if self._path(fullname) else None

        def is_package(self, fullname):
            return self._path(fullname).endswith("/__init__.py")

        def get_source(self, fullname):
            return self.sources[self._path(fullname)]

    def arrive(package):
        if find_spec("lsmlake"):
            return
        for entry in list(sys.path):  # of a stream Spark expects the archives in a folder of its own; they lie one up
            path, moved = Path(entry), Path(entry).parent.parent / Path(entry).name
            if path.suffix in (".zip", ".whl", ".egg") and not path.exists() and moved.exists():
                sys.path.append(str(moved))
        invalidate_caches()
        if find_spec("lsmlake"):
            return
        if package is None:
            raise ImportError(
                "this process of Spark does not have the package lsmlake; install it where Spark's Python runs, or call "
                "lsmlake.ship(spark) first"
            )
        sys.meta_path.append(Carried(json.loads(zlib.decompress(package))))

    return arrive


def portable_source(package: Package | None) -> type[DataSource]:
    """The data source of `lsmlake.spark.source`, as a class that Spark can load before it has the package."""
    arrive = _arrival()

    class PortableSource(DataSource):
        """One table, named by its folder."""

        @classmethod
        def name(cls):
            return "lsmlake"

        def _source(self):
            arrive(package)
            return import_module("lsmlake.spark.source").LakeSource(self.options, package)

        def schema(self):
            return self._source().schema()

        def reader(self, schema):
            return self._source().reader(schema)

        def writer(self, schema, overwrite):
            return self._source().writer(schema, overwrite)

        def streamReader(self, schema):
            return self._source().streamReader(schema)

    return PortableSource
