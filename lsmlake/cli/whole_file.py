"""Writes a file that appears under its name only when it is complete."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lsmlake.errors import InvalidQuery


def checked_path(file: str, option: str) -> Path:
    """The path of a file that can be made or replaced. `option`: what named it. Raises InvalidQuery."""
    path = Path(os.path.realpath(os.path.expanduser(file)))  # a symbolic link is kept and points to the new file
    if file == "-" or (path.exists() and not path.is_file()):
        cure = f"name a file; for standard output leave {option} out"
        raise InvalidQuery("not a file", where=option, found=repr(file), cure=cure)
    if not path.parent.is_dir():
        cure = f"make the folder: mkdir -p {path.parent}"
        raise InvalidQuery("there is no such folder", where=option, found=repr(str(path.parent)), cure=cure)
    return path


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write into. At the end, without an error, it replaces the file at `path`, whose permissions it keeps."""
    temporary = path.with_name(f".lsmlake-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
        if path.exists():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
