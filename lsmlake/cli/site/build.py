"""Builds and serves the site of the documents, with mkdocs-material and mkdocstrings. A reader of the site needs no network."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import lsmlake
from lsmlake.cli.site.contents import CONTRIBUTING, DOCUMENTS, PICTURES, SECTIONS, title_of
from lsmlake.cli.site.reference_pages import pages
from lsmlake.errors import EngineFailed, InvalidQuery, StorageFailed
from lsmlake.extras import need

_MARK = "lsmlake-version.txt"
"""A file in every site that this module built. Only such a folder is replaced."""
_HOST = "127.0.0.1"
_FOUND_MAX = 2000


def build_site(folder: Path) -> None:
    """Write the site into `folder`. What an earlier build left there is replaced.

    Raises:
        InvalidQuery: `folder` holds something else.
        MissingDependency: mkdocs, its theme or mkdocstrings is not installed.
        EngineFailed: mkdocs has failed, or warned.
    """
    if folder.exists() and not (folder.is_dir() and ((folder / _MARK).exists() or not any(folder.iterdir()))):
        cure = "name a new or empty folder"
        raise InvalidQuery("the folder holds something else than the site", where=str(folder), cure=cure)
    for package in ("mkdocs", "material", "mkdocstrings", "mkdocstrings_handlers.python"):
        need(package, "the site of the documents", extra="docs")
    with tempfile.TemporaryDirectory(prefix="lsmlake-docs-") as made:
        write_sources(Path(made) / "docs")
        settings = Path(made) / "mkdocs.yml"
        written = json.dumps(configuration(Path(made) / "docs", folder.resolve()))  # JSON is YAML
        settings.write_text(written, encoding="utf-8")
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(settings)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        messages = done.stderr.strip()[-_FOUND_MAX:]
        raise EngineFailed("mkdocs could not build the site", where=str(folder), found=messages, cure="see its messages")


def write_sources(folder: Path) -> None:
    """Write the documents, the generated pages and the first page into `folder`, for mkdocs."""
    (folder / "pictures").mkdir(parents=True)
    for picture in PICTURES:
        shutil.copy(picture, folder / "pictures")
    texts = {name: path.read_text(encoding="utf-8") for name, path in DOCUMENTS.items()} | dict(pages())
    if CONTRIBUTING.exists():
        texts["contributing"] = CONTRIBUTING.read_text(encoding="utf-8").replace("](../lsmlake/docs/", "](")
    for name, text in {**texts, "index": first_page(texts)}.items():
        (folder / file_of(name)).write_text(text, encoding="utf-8")
    (folder / _MARK).write_text(f"{lsmlake.__version__}\n", encoding="utf-8")


def file_of(name: str) -> str:
    """The file name of a page: that of its document, because links name it."""
    return DOCUMENTS[name].name if name in DOCUMENTS else f"{name}.md"


def first_page(texts: dict[str, str]) -> str:
    """What lsmlake is, and a list of all pages."""
    lines = [
        "# lsmlake",
        "",
        "Primary-key tables on the data lake, embedded in a Python process or on PySpark. Upsert streams go in; queries read "
        "plain Parquet files and skip dead rows. There is no jar and no server.",
        "",
        "![One bucket of a table: an LSM tree of Parquet files](pictures/tree.svg)",
    ]
    for section, names in SECTIONS.items():
        lines += ["", f"## {section}", ""]
        lines += [f"- [{title_of(texts[name])}]({file_of(name)})" for name in names if name in texts]
    return "\n".join(lines) + "\n"


def configuration(sources: Path, folder: Path) -> dict[str, object]:
    """The settings of mkdocs."""
    present = {path.name for path in sources.glob("*.md")}
    sections = [{title: [file_of(name) for name in names if file_of(name) in present]} for title, names in SECTIONS.items()]
    python = {
        "paths": [str(Path(lsmlake.__file__).parents[1])],
        "options": {
            "docstring_options": {"warnings": False},
            "filters": ["!^_"],
            "heading_level": 2,
            "inherited_members": True,
            "members_order": "source",
            "separate_signature": True,
            "show_bases": False,
            "show_root_full_path": False,
            "show_root_heading": True,
            "show_signature_annotations": True,
            "show_source": False,
            "show_symbol_type_heading": True,
        },
    }
    return {
        "site_name": f"lsmlake {lsmlake.__version__}",
        "docs_dir": str(sources),
        "site_dir": str(folder),
        "use_directory_urls": False,  # so that a browser can open the files without a server
        "nav": [{"lsmlake": "index.md"}, *sections],
        "theme": {
            "name": "material",
            "font": False,  # fonts of the reader's machine: no request leaves the site
            "features": ["navigation.indexes", "navigation.top", "navigation.footer", "content.code.copy", "toc.follow"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "indigo"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "indigo"},
            ],
        },
        "plugins": ["search", {"mkdocstrings": {"handlers": {"python": python}}}],
        "markdown_extensions": [
            "sane_lists",
            "tables",
            {"toc": {"permalink": True}},
            "pymdownx.highlight",
            "pymdownx.superfences",
        ],
        "validation": {"links": {"anchors": "warn", "not_found": "warn", "unrecognized_links": "warn"}},
    }


def server_of(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of the site in `folder`, on this machine only; port 0: any free one. It answers while `serve_forever` runs.

    Raises:
        StorageFailed: the port is taken.
    """
    try:
        return ThreadingHTTPServer((_HOST, port), partial(_Quiet, directory=str(folder)))
    except OSError as error:
        cure = "choose another one with --port"
        raise StorageFailed("cannot listen on the port", where=f"{_HOST}:{port}", found=error.strerror, cure=cure) from error


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing about a request."""
