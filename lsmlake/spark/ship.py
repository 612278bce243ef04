"""Ships the package to Python processes of Spark that do not have it installed.

`ship` sends it to the executors of a session as a zip artifact. Two kinds of processes do not see artifacts: those in which Spark
plans and reads a Python data source for a stream, and, on Spark Connect, those that run foreachBatch functions. Pickles for them
carry the source code of the package and make it importable: `carried` for values, `datasource.portable` for the data source.

The functions and classes for this are nested in functions: cloudpickle then pickles them by value, not by the name of a module
that the other process does not have.
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
from importlib import invalidate_caches
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.resources import files
from importlib.util import find_spec, spec_from_loader
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

_SHIPPED = "lsmlake.shipped"
"""Session setting with the digest of the shipped package."""

Package = bytes
"""The source code of the package, compressed."""


def ship(spark) -> None:
    """Sends the package to the executors of a session, which enables streams and `format("lsmlake")`. Repeated calls do
    nothing."""
    digest = sha256(_package()).hexdigest()[:12]
    if spark.conf.get(_SHIPPED, None) != digest:
        spark.addArtifact(_archive(f"lsmlake-{digest}.zip"), pyfile=True)
        spark.conf.set(_SHIPPED, digest)


def shipped(spark) -> Package | None:
    """Returns the package for pickles of this session, None if it was not shipped."""
    return _package() if spark.conf.get(_SHIPPED, None) else None


def _sources() -> dict[str, str]:
    """Returns the text of each module by path; works for a package in a zip file as well."""

    def below(folder, path: str) -> Iterator[tuple[str, str]]:
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if entry.is_dir():
                yield from below(entry, f"{path}/{entry.name}")
            elif entry.name.endswith(".py"):
                yield f"{path}/{entry.name}", entry.read_text("utf-8")

    return dict(below(files("lsmlake"), "lsmlake"))


@cache
def _archive(name: str) -> str:
    """Writes the package to a zip file, which is kept until the process ends: later executors fetch it as well."""
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
    """Returns a result for `__reduce__` that rebuilds a value as `function(*args)` in a process without the package."""
    if package is None:
        return function, args
    return _loader(), (package, pickle.dumps((function, args)))


class WithPackage:
    """An object that pickles with the package, if it was shipped: on Connect, Spark does not send it to the tasks of a stream."""

    package: Package | None

    def __reduce__(self) -> tuple:
        return carried(self.package, _rebuilt, type(self), dict(self.__dict__))


def _rebuilt(kind: type, state: Mapping[str, object]) -> object:
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


def _loader() -> Callable[[Package, bytes], object]:
    arrive = arrival()

    def load(package, data):
        arrive(package)
        function, args = pickle.loads(data)
        return function(*args)

    return load


def arrival() -> Callable[[Package | None], None]:
    """Returns a function that makes `import lsmlake` work in its process, or raises ImportError with the cure."""

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
        for entry in list(sys.path):  # for a stream Spark expects the archives in a subdirectory, but they are in its parent
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
