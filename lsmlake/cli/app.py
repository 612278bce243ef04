"""The command line, whose commands are files of their own: `commands.py` lists them."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from lsmlake import __version__
from lsmlake.cli.arguments import Debug, WarehouseFirst
from lsmlake.cli.commands import COMMANDS
from lsmlake.cli.guard import EXIT_CODES, GuardedGroup, Settings, check_once
from lsmlake.cli.plain_values import without_pydantic

_CONTEXT = {"help_option_names": ["-h", "--help"]}


class _LazyGroup(GuardedGroup):
    """Loads a command when it is called or completed; until then it is represented by an empty command."""

    def get_params(self, ctx: typer.Context) -> list[Any]:
        return without_pydantic(super().get_params(ctx))

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        check_once(self, ctx, args)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: typer.Context, args: list[str]):
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and single(name), rest


class _QuickCommand(TyperCommand):
    """Converts only the values that need it, and takes an option once."""

    def get_params(self, ctx: typer.Context) -> list[Any]:
        return without_pydantic(super().get_params(ctx))

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        check_once(self, ctx, args)
        return super().parse_args(ctx, args)


def single(name: str):
    """The command `name`, with its arguments, as Typer builds it."""
    from lsmlake.cli.command_maker import command_of

    own = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    make = own.command(name, cls=_QuickCommand, context_settings=_CONTEXT)
    make(command_of(getattr(import_module(COMMANDS[name].module), name)))
    return typer.main.get_command(own)


def _empty() -> None:
    raise AssertionError("_LazyGroup puts the real command in this place")


app = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=EXIT_CODES,
    context_settings=_CONTEXT,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lsmlake {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")]


@app.callback()
def lsmlake(ctx: typer.Context, warehouse: WarehouseFirst = None, debug: Debug = False, version: Version = False) -> None:
    """Primary-key tables on the data lake. Tables are named database.table."""
    ctx.obj = Settings(warehouse, debug)


for _name, _entry in COMMANDS.items():
    app.command(_name, help=_entry.summary)(_empty)
