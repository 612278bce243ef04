"""Makes a command of a function. Arguments, options and help come from its signature and docstring.

The command opens the lake or table for a parameter of type Lake, Table or Metadata. Parameters before `*` are arguments, others
are options; the section Args explains them: `older_than (TIME): Only files older than this.` Every command also takes --json,
--warehouse and --debug. The function returns the result to show.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import pyarrow as pa
import typer

from lsmlake.cli.argument_reading import open_metadata
from lsmlake.cli.arguments import Debug, Json, TableName, Warehouse
from lsmlake.cli.guard import FAILED
from lsmlake.cli.output import OutputView, Sentences, emit
from lsmlake.schema.values import json_rows

_ARGS = re.compile(r"^Args:\n((?:    .*\n?)+)", re.MULTILINE)
_ARG = re.compile(r"^    (\w+)(?: \((.+?)\))?: (.+(?:\n {8}.*)*)", re.MULTILINE)
_OPENED = "Lake", "Table", "Metadata"


class CommandResult(NamedTuple):
    """The result of a command. `data`: for JSON. `view`: for people; text is printed as it is. `errors`: lines for standard
    error; the exit code is 1 if there are any."""

    data: object
    view: OutputView | str | Sequence[str]
    errors: Sequence[str] = ()


def command_of(function: Callable[..., Any]) -> Callable[..., None]:
    """The function that Typer makes a command of."""
    hints = get_type_hints(function, include_extras=True)
    if "debug" in hints:
        return function  # the function is a command already
    takes = inspect.signature(function).parameters
    about, explained = _split(inspect.getdoc(function) or "")
    opened = {name: kind for name in takes if (kind := getattr(hints[name], "__name__", "")) in _OPENED}
    given: dict[str, Any] = {"ctx": typer.Context}
    for name, parameter in takes.items():
        if name in opened:
            given |= {"table": TableName} if opened[name] != "Lake" else {}
        elif name != "ctx":
            given[name] = _annotated(name, parameter, hints[name], explained.get(name))
    common = {name: hint for name, hint in (("json", Json), ("warehouse", Warehouse), ("debug", Debug)) if name not in given}

    def command(ctx: typer.Context, **values: Any) -> None:
        ctx.obj.debug |= values.pop("debug")
        ctx.obj.warehouse = values.pop("warehouse") or ctx.obj.warehouse
        as_json = values.pop("json") if "json" in common else False
        name = values.pop("table") if set(opened.values()) & {"Table", "Metadata"} else None
        values |= {parameter: _open(kind, ctx, name) for parameter, kind in opened.items()}
        shown = function(**values, **({"ctx": ctx} if "ctx" in takes else {}))
        if shown is not None:
            _show(shown, as_json)

    def parameter(name: str, hint: object) -> inspect.Parameter:
        default = False if hint in (Json, Debug) else None if hint is Warehouse else getattr(takes.get(name), "default", None)
        needed = name in ("ctx", "table") and hint in (typer.Context, TableName)
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(name, kind, default=inspect.Parameter.empty if needed else default, annotation=hint)

    everything = given | common
    command.__signature__ = inspect.Signature([parameter(*item) for item in everything.items()])
    command.__annotations__ = everything
    command.__doc__ = about
    return command


def _open(kind: str, ctx: typer.Context, name: str | None) -> object:
    if kind == "Metadata":
        return open_metadata(ctx, name)
    from lsmlake.cli.opening import open_lake, open_table  # loads all verbs

    lake = open_lake(ctx)
    return lake if kind == "Lake" else open_table(lake, name)


def _split(text: str) -> tuple[str, dict[str, tuple[str | None, str]]]:
    """The docstring without its section Args, and name -> (metavar, help) of the arguments in this section."""
    match = _ARGS.search(text)
    if match is None:
        return text, {}
    args = {name: (metavar, " ".join(about.split())) for name, metavar, about in _ARG.findall(match[1])}
    return text.replace(match[0], "").strip(), args


def _annotated(name: str, parameter: inspect.Parameter, hint: Any, explained: tuple[str, str] | None) -> object:
    """The annotation of a parameter for Typer. `explained`, from the docstring, takes precedence over a shared annotation."""
    if get_origin(hint) is Annotated:
        kind, info = get_args(hint)
        info = copy.copy(info)
    elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        kind, info = hint, typer.Option()
    else:
        kind, info = hint, typer.Argument(metavar=name.upper(), show_default=False)
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY and info.default is ...:  # Typer keeps the name there, if it has one
        info.param_decls = ("--" + name.replace("_", "-"),)
    if explained is not None:
        info.metavar, info.help = explained[0] or info.metavar, explained[1]
    return Annotated[kind, info]


def _show(shown: CommandResult, as_json: bool) -> None:
    data, view = shown.data, shown.view
    if isinstance(data, pa.Table):
        data = json_rows(data)
    elif is_dataclass(data):
        data = asdict(data)
    texts = (view,) if isinstance(view, str) else view
    emit(data, texts if hasattr(texts, "lines") else Sentences(tuple(texts)), as_json)
    for line in shown.errors:
        typer.echo(f"error: {line}", err=True)
    if shown.errors:
        raise typer.Exit(FAILED)
