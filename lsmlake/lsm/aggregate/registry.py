"""From the name of an aggregate function to the function for a column: built-in ones, and the user's own.

A user's function is registered in the process, or by an installed package as an entry point of the group `lsmlake.aggregates`
(name = the function's name, object = its maker). Spark workers are other processes: there only the second way reaches.
Built-in names cannot be taken.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from importlib.metadata import entry_points

import pyarrow as pa

from lsmlake.errors import InvalidOption, LakeError
from lsmlake.lsm.aggregate.builtin import BUILTIN
from lsmlake.lsm.aggregate.function import Function, Guarded, IgnoreRetract, NoRetract
from lsmlake.lsm.aggregate.overflow import OverflowAsNull
from lsmlake.options.columns import NULL, SETTINGS, FieldSettings

Maker = Callable[[pa.Field, FieldSettings], Function]

GROUP = "lsmlake.aggregates"
NAMES = tuple(BUILTIN)
"""The built-in names. `primary_key` is for key columns, which the engines give it themselves."""

_registered: dict[str, Maker] = {}


def function(name: str, field: pa.Field, settings: FieldSettings, where: str) -> Function:
    """The function of that name for a column of type `field.type`; `where` (a table and column) goes into the messages.

    Retract rows are settled: dropped if the settings ignore them, refused with InvalidData if the function has no use for them.
    Raises InvalidOption: no such function, a type it has no meaning for, settings it does not read or that contradict.
    """
    made = _builtin(name, field, settings, where) if name in BUILTIN else _other(name, field, settings, where)
    if settings.overflow == NULL:
        made = OverflowAsNull(made, where)
    if settings.ignore_retract:
        return IgnoreRetract(made)
    cure = f"set fields.{field.name}.ignore-retract to true, or use a function that can"
    return made if made.retracts else NoRetract(made, where, cure)


def register(name: str, make: Maker) -> None:
    """Let `name` stand for the functions of `make(field, settings)`, in this process. Raises InvalidOption if it is taken."""
    if name in BUILTIN or name in _registered or name in _installed():
        raise InvalidOption("an aggregate function has this name already", found=repr(name), cure="choose another name")
    _registered[name] = make


def _builtin(name: str, field: pa.Field, settings: FieldSettings, where: str) -> Function:
    builtin = BUILTIN[name]
    if not builtin.fits(field.type):
        raise InvalidOption(
            f"aggregate function {name!r} has no meaning for this type",
            where=where,
            expected=builtin.types,
            found=field.type,
            cure="choose another function or another type",
        )
    for setting in settings.given():
        if setting not in builtin.reads and setting != "ignore_retract":
            raise InvalidOption(
                f"aggregate function {name!r} has no use for {SETTINGS[setting].name}",
                where=where,
                found=repr(getattr(settings, setting)),
                cure=f"remove fields.{field.name}.{SETTINGS[setting].name}",
            )
    return builtin.make(field, settings, where)


def _other(name: str, field: pa.Field, settings: FieldSettings, where: str) -> Function:
    """A function that is not built in."""
    try:
        return Guarded(_maker(name, where)(field, settings), name, where)
    except LakeError:
        raise
    except Exception as error:
        raise InvalidOption(
            f"the aggregate function {name!r}, which is not built in, cannot be made",
            where=where,
            found=f"{type(error).__name__}: {error}",
            cure="correct the function, or use another one",
        ) from error


def _maker(name: str, where: str) -> Maker:
    installed = _installed()
    if name in _registered:
        return _registered[name]
    if name in installed:
        return installed[name].load()
    known = [*NAMES, *_registered, *installed]
    near = get_close_matches(name.lower(), known, n=1)
    cure = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(sorted(known))}"
    raise InvalidOption("no such aggregate function", where=where, found=repr(name), cure=cure)


def _installed() -> dict:
    return {point.name: point for point in entry_points(group=GROUP)}
