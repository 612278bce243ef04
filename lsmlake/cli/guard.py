"""Ends a command: prints one readable line for an error, and exits with a distinct code for scripts."""

from __future__ import annotations

import os
import sys
import traceback
from dataclasses import dataclass
from typing import NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from lsmlake.errors import (
    InvalidOption,
    InvalidQuery,
    InvalidSchema,
    LakeError,
    SnapshotNotFound,
    TableExists,
    TableNotFound,
    foreign,
)
from lsmlake.report.text import printable
from lsmlake.undo import pass_interruption

VARIABLE = "LSMLAKE_WAREHOUSE"
FINE, FAILED, USAGE, PIPE_CLOSED = 0, 1, 2, 141
EXIT_CODES = (
    "Exit codes: 0 success; 1 the operation failed, or a check found something; 2 wrong usage: bad arguments, or no such "
    "warehouse, table or snapshot; 130 interrupted."
)
_OF_TYPER = typer.Exit, typer.Abort, typer.BadParameter.__mro__[2]  # the last is ClickException, which has moved between releases
_USAGE_ERRORS = (InvalidQuery, InvalidOption, InvalidSchema, TableNotFound, TableExists, SnapshotNotFound)


@dataclass
class Settings:
    """The options that can be given before or after the name of the command."""

    warehouse: str | None = None
    debug: bool = False


class GuardedGroup(TyperGroup):
    """Commands whose LakeErrors, interruptions and closed pipes end the process without a traceback."""

    def invoke(self, ctx: typer.Context) -> object:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except LakeError as error:
            _fail(ctx, error)
        except BrokenPipeError:  # the reader of the output, such as `head`, has closed the pipe
            _drop_output()
            raise typer.Exit(PIPE_CLOSED) from None
        except OSError as error:  # the storage raises only LakeErrors, so writing the output failed
            _drop_output()
            _end(f"error: cannot write the result: {error.strerror or error}", FAILED)
        except (*_OF_TYPER, MemoryError):
            raise
        except Exception as error:
            pass_interruption(error)
            _fail(ctx, foreign(error, f"lsmlake {ctx.invoked_subcommand or ''}".strip()))


def check_once(command: TyperCommand | TyperGroup, ctx: typer.Context, args: list[str]) -> None:
    """Ends the process if an option in `args` that takes one value is given twice: the parser would take the last one and
    forget the others."""
    _, _, order = command.make_parser(ctx).parse_args([*args])
    for number, parameter in enumerate(order):
        repeats = parameter.multiple or (parameter.is_flag and not parameter.secondary_opts) if _is_option(parameter) else True
        if not repeats and parameter in order[:number]:
            _fail(ctx, InvalidOption(f"{max(parameter.opts, key=len)} is given twice", cure="give it once"))


def _is_option(parameter: object) -> bool:
    return parameter.param_type_name == "option"


def _fail(ctx: typer.Context, error: LakeError) -> NoReturn:
    if isinstance(ctx.obj, Settings) and ctx.obj.debug:
        traceback.print_exc()
    _end(f"error: {one_line(error)}", USAGE if isinstance(error, _USAGE_ERRORS) else FAILED)


def one_line(error: LakeError) -> str:
    return printable(" ".join(error.for_command_line().split()))


def _drop_output() -> None:
    """Discard buffered output; otherwise the last flush of the process would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(line: str, code: int) -> NoReturn:
    typer.echo(line, err=True)
    raise typer.Exit(code)
