"""`lsmlake docs`: the documents that are part of the package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown

from lsmlake.cli.arguments import Debug
from lsmlake.cli.opening import note_debug
from lsmlake.cli.output import Sentences, emit
from lsmlake.errors import InvalidQuery

DOCUMENTS = {path.stem.lower(): path for path in sorted((Path(__file__).parent.parent / "docs").glob("*.md"))}


def _begin_with(incomplete: str) -> list[str]:
    return [name for name in DOCUMENTS if name.startswith(incomplete.lower())]


Name = Annotated[str | None, typer.Argument(metavar="NAME", help="The document.", show_default=False, autocompletion=_begin_with)]
Where = Annotated[bool, typer.Option("--path", help="Print the path of the file, not its text.")]


class Document(NamedTuple):
    """Markdown text: formatted on a terminal, unchanged elsewhere."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Markdown(self.text)

    def lines(self) -> Iterator[str]:
        return iter(self.text.splitlines())


def docs(ctx: typer.Context, name: Name = None, path: Where = False, debug: Debug = False) -> None:
    """Print a document, such as sql, iceberg or format.

    Without NAME, list the documents and their titles.
    """
    note_debug(ctx, debug)
    if name is None:
        emit(None, Sentences(tuple(str(file) if path else _listed(each) for each, file in DOCUMENTS.items())), False)
        return
    file = DOCUMENTS.get(name.lower().removesuffix(".md"))
    if file is None:
        raise InvalidQuery("no such document", expected=" or ".join(DOCUMENTS), found=repr(name), cure="run `lsmlake docs`")
    emit(None, Sentences((str(file),)) if path else Document(file.read_text(encoding="utf-8")), False)


def _listed(name: str) -> str:
    title = DOCUMENTS[name].read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    return f"{name:<{max(map(len, DOCUMENTS))}}  {title}"
