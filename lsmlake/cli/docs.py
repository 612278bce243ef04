"""`lsmlake docs`: prints the documents that are part of the package, and builds or serves the site that they are."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown

from lsmlake.cli.arguments import Debug
from lsmlake.cli.opening import note_debug
from lsmlake.cli.output import Sentences, emit
from lsmlake.cli.site.contents import DOCUMENTS, title_of
from lsmlake.errors import InvalidQuery


def _begin_with(incomplete: str) -> list[str]:
    return [name for name in DOCUMENTS if name.startswith(incomplete.lower())]


Name = Annotated[str | None, typer.Argument(metavar="NAME", help="The document.", show_default=False, autocompletion=_begin_with)]
Where = Annotated[bool, typer.Option("--path", help="Print the path of the file, not its text.")]
_BUILD = "Build the site of all documents and the reference into this directory. Needs the extra docs."
Build = Annotated[Path | None, typer.Option("--build", metavar="DIR", help=_BUILD, show_default=False)]
Serve = Annotated[bool, typer.Option("--serve", help="Build the site and serve it to this machine, until Ctrl-C.")]
Port = Annotated[int | None, typer.Option("--port", min=0, max=65535, metavar="N", help="Of --serve; 0: any. Default: 8000.")]


_PORT = 8000


class Document(NamedTuple):
    """Markdown text: formatted on a terminal, unchanged elsewhere."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Markdown(self.text)

    def lines(self) -> Iterator[str]:
        return iter(self.text.splitlines())


def docs(
    ctx: typer.Context,
    name: Name = None,
    path: Where = False,
    build: Build = None,
    serve: Serve = False,
    port: Port = None,
    debug: Debug = False,
) -> None:
    """Print a document, such as sql, iceberg or format.

    Without NAME, list the documents and their titles. With --build or --serve, make a site of them.
    """
    note_debug(ctx, debug)
    if port is not None and not serve:
        raise InvalidQuery("--port is for --serve", found=f"--port {port}", cure="add --serve, or leave --port out")
    if build or serve:
        if name or path:
            given = name or "--path"
            raise InvalidQuery("the site has all documents", found=given, cure=f"leave {given} out, or --build and --serve")
        _site(build, serve, _PORT if port is None else port)
        return
    if name is None:
        emit(None, Sentences(tuple(str(file) if path else _listed(each) for each, file in DOCUMENTS.items())), False)
        return
    file = DOCUMENTS.get(name.lower().removesuffix(".md"))
    if file is None:
        raise InvalidQuery("no such document", expected=" or ".join(DOCUMENTS), found=repr(name), cure="run `lsmlake docs`")
    emit(None, Sentences((str(file),)) if path else Document(file.read_text(encoding="utf-8")), False)


def _site(folder: Path | None, serve: bool, port: int) -> None:
    """Build the site into `folder`, or into one that is removed at the end; then serve it."""
    from lsmlake.cli.site.build import build_site, server_of

    with tempfile.TemporaryDirectory(prefix="lsmlake-site-") as made:
        site = folder or Path(made)
        build_site(site)
        if folder is not None:
            emit(None, Sentences((str(site / "index.html"),)), False)
        if serve:
            with server_of(site, port) as server:
                emit(None, Sentences((f"http://{server.server_address[0]}:{server.server_port}/",)), False)
                sys.stdout.flush()
                server.serve_forever()


def _listed(name: str) -> str:
    return f"{name:<{max(map(len, DOCUMENTS))}}  {title_of(DOCUMENTS[name].read_text(encoding='utf-8'))}"
