"""Aggregate functions by name: built-in functions and those of users.

A user registers a function in the process, or an installed package does so as an entry point of the group `lsmlake.aggregates`
(name = the name of the function, object = its factory). Spark workers are other processes and see only entry points. The names of
built-in functions are reserved.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

import pyarrow as pa

from lsmlake.errors import InvalidOption, LakeError
from lsmlake.lsm.aggregate.builtin import BUILTIN
from lsmlake.lsm.aggregate.function import Function, Guarded, IgnoreRetract, NoRetract
from lsmlake.lsm.aggregate.overflow import OverflowAsNull
from lsmlake.options.column_options import NULL, SETTINGS, FieldSettings
from lsmlake.undo import pass_interruption

Factory = Callable[[pa.Field, FieldSettings], Function]

GROUP = "lsmlake.aggregates"
NAMES = tuple(BUILTIN)
"""The built-in names. `primary_key` exists for compatibility with Paimon, where key columns have it."""

_REQUIRED = tuple(name for name in dir(Function) if not name.startswith("_"))
_TRIAL = pa.field("trial", pa.int64())
_registered: dict[str, Factory] = {}


def function(name: str, field: pa.Field, settings: FieldSettings, where: str) -> Function:
    """The aggregate function of a column. The result handles retract rows: it ignores them if the settings say so, and raises
    InvalidData if the function does not support retraction.

    Args:
        name: the name of the function.
        field: the column.
        settings: the options `fields.<column>.*`.
        where: the table and column, for error messages.

    Raises:
        InvalidOption: there is no such function; it does not support the type; or a setting is unused or contradictory.
    """
    aggregate = _builtin(name, field, settings, where) if name in BUILTIN else _other(name, field, settings, where)
    if settings.overflow == NULL:
        aggregate = OverflowAsNull(aggregate, where)
    if settings.ignore_retract:
        return IgnoreRetract(aggregate)
    cure = f"set fields.{field.name}.ignore-retract to true, or use a function that supports retraction"
    return aggregate if aggregate.retracts else NoRetract(aggregate, where, cure)


def register(name: str, make: Factory) -> None:
    """Register an aggregate function under a name, in this process.

    Args:
        name: the name, as in the option `fields.<column>.aggregate-function`.
        make: makes the function of a column from its field and settings. It is called once now, for a BIGINT column, to check
            that its functions are complete; it may refuse this column by an exception.

    Raises:
        InvalidOption: the name is taken, or a function lacks a method such as `reduce`.

    Example:
        >>> register("longest", lambda field, settings: Longest())
    """
    if name in BUILTIN or name in _registered or name in _installed():
        raise InvalidOption("an aggregate function with this name exists", found=repr(name), cure="choose another name")
    try:
        trial = make(_TRIAL, FieldSettings())
    except Exception as error:
        pass_interruption(error)
        if isinstance(error, TypeError) and "abstract" in str(error):
            raise _incomplete(name, "", error) from error
    else:
        _check_complete(name, trial, "")
    _registered[name] = make


def _check_complete(name: str, made: object, where: str) -> None:
    if missing := [each for each in _REQUIRED if not hasattr(made, each)]:
        raise _incomplete(name, where, f"a {type(made).__name__} without {', '.join(missing)}")


def _incomplete(name: str, where: str, given: object) -> InvalidOption:
    what = f"the aggregate function {name!r}, which is not built in, is incomplete"
    expected = "a subclass of lsmlake.lsm.aggregate.Function with the method reduce"
    return InvalidOption(what, where=where, expected=expected, found=given, cure="write the missing methods")


def _builtin(name: str, field: pa.Field, settings: FieldSettings, where: str) -> Function:
    builtin = BUILTIN[name]
    if not builtin.fits(field.type):
        raise InvalidOption(
            f"aggregate function {name!r} does not support this type",
            where=where,
            expected=builtin.types,
            found=field.type,
            cure="choose another function or another type",
        )
    for setting in settings.given():
        if setting not in builtin.reads and setting != "ignore_retract":
            raise InvalidOption(
                f"aggregate function {name!r} does not support the option {SETTINGS[setting].name}",
                where=where,
                found=repr(getattr(settings, setting)),
                cure=f"remove fields.{field.name}.{SETTINGS[setting].name}",
            )
    return builtin.make(field, settings, where)


def _other(name: str, field: pa.Field, settings: FieldSettings, where: str) -> Function:
    """Creates a function that is not built in."""
    try:
        aggregate = _factory(name, where)(field, settings)
        _check_complete(name, aggregate, where)
        return Guarded(aggregate, name, where)
    except LakeError:
        raise
    except Exception as error:
        raise InvalidOption(
            f"the aggregate function {name!r}, which is not built in, cannot be created",
            where=where,
            found=f"{type(error).__name__}: {error}",
            cure="correct the function, or use another one",
        ) from error


def check_name(name: str, where: str) -> None:
    """Raises InvalidOption if there is no aggregate function of this name."""
    if name not in NAMES:
        _factory(name, where)


def _factory(name: str, where: str) -> Factory:
    installed = _installed()
    if name in _registered:
        return _registered[name]
    if name in installed:
        return installed[name].load()
    known = [*NAMES, *_registered, *installed]
    near = get_close_matches(name.lower(), known, n=1)
    cure = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(sorted(known))}"
    raise InvalidOption("unknown aggregate function", where=where, found=repr(name), cure=cure)


def _installed() -> dict:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}
