"""Reads values that need no conversion without Pydantic.

Newer releases of Typer convert each value with Pydantic, also a text and a value that was not given, and its import takes a fifth
of the CPU of a quick command. Older releases convert without it, and have no `get_runtime_param`; nothing changes with them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple


class _Conversion(NamedTuple):
    """In the place of Typer's conversion, which `made` returns."""

    made: Callable[[], Any]

    def coerce(self, value: object, param: Any, ctx: object) -> object:
        if param.multiple or param.nargs != 1:
            if param.type_descriptor.annotation == list[str] and isinstance(value, tuple):
                return list(value)
        elif value is None or (param.type_descriptor.annotation is str and isinstance(value, str)):
            return value
        return self.made().coerce(value, param=param, ctx=ctx)


def without_pydantic(parameters: list[Any]) -> list[Any]:
    """The parameters, which take texts, lists of texts and values that were not given as they are; Typer converts all others."""
    for parameter in parameters:
        made = getattr(parameter, "get_runtime_param", None)
        if made is not None and not isinstance(made, partial):
            parameter.get_runtime_param = partial(_Conversion, made)
    return parameters
