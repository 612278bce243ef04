"""The border between users and the library: the decorator `@public`, for classes and functions.

Before a call, it checks every argument against the type in the signature, and refuses a wrong one with the name of the parameter.
Numbers of other libraries, such as NumPy's integers, are converted to Python's. After a call, `errors.foreign` converts any
exception that is not a LakeError; an interruption, such as KeyboardInterrupt, passes unchanged. Files that a failed call has
created are removed (`undo`). Signatures, docstrings and types are unchanged.
"""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, reduce, wraps
from math import inf
from operator import index
from reprlib import Repr
from typing import Any, Literal, NamedTuple, TypeVar, Union

import numpy as np

from lsmlake import undo
from lsmlake.errors import InvalidData, InvalidOption, InvalidQuery, InvalidSchema, LakeError, Wording, foreign
from lsmlake.interruption import told

Thing = TypeVar("Thing", bound=Callable[..., object])
Item = TypeVar("Item")
_END = object()

_PROTOCOLS = {"__len__", "__iter__", "__getitem__", "__call__", "__arrow_c_stream__", "_repr_html_", "__repr__"}
"""Public methods whose names begin with an underscore."""

# the error class for an argument of a wrong type; InvalidQuery if neither mapping has one

_BY_VERB: Mapping[str, type[LakeError]] = {
    **dict.fromkeys(("upsert", "append", "delete_keys", "overwrite", "sink", "write_stream", "create_table_from"), InvalidData),
    **dict.fromkeys(("set_option", "unset_option"), InvalidOption),
}
_BY_PARAMETER: Mapping[str, type[LakeError]] = {
    **dict.fromkeys(("options", "alterations"), InvalidOption),
    **dict.fromkeys(("schema", "primary_key", "partition_by", "comment"), InvalidSchema),
}


def _with_article(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"


_SECRET = {"storage_options", "catalog"}
"""Parameters whose values are never shown."""


class _Short(Repr):
    """A representation of bounded length. It never calls `__repr__` of other classes, which may be slow, long or broken."""

    def repr_instance(self, value: object, level: int) -> str:
        return _with_article(type(value).__name__) if type(value).__repr__ not in _QUICK else super().repr_instance(value, level)


_QUICK = float.__repr__, types.NoneType.__repr__, bool.__repr__
_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = 80


def short(value: object) -> str:
    """`value` as an error message shows it."""
    return _SHORT.repr(value)


def public(thing: Thing) -> Thing:
    """Guards a function, or all public methods and properties of a class."""
    return _of_class(thing, thing.__name__) if isinstance(thing, type) else _guarded(thing, thing.__qualname__)


def verbs_of(owner: str) -> Callable[[Thing], Thing]:
    """As `public`, for a base class whose methods users know as methods of the class `owner`, which inherits them."""
    return lambda thing: _of_class(thing, owner)


def _of_class(thing: Thing, owner: str) -> Thing:
    def guarded(function: Callable[..., object]) -> Callable[..., object]:
        return _guarded(function, f"{owner}.{function.__name__}")

    for name, member in list(vars(thing).items()):
        if name.startswith("_") and name not in _PROTOCOLS:
            continue
        if isinstance(member, types.FunctionType):
            setattr(thing, name, guarded(member))
        elif isinstance(member, (staticmethod, classmethod)):
            setattr(thing, name, type(member)(guarded(member.__func__)))
        elif isinstance(member, property):
            setattr(thing, name, property(guarded(member.fget), doc=member.__doc__))
        elif isinstance(member, cached_property):
            member.func = guarded(member.func)
    return thing


def _guarded(function: Callable[..., object], where: str) -> Callable[..., object]:
    signature, ours = inspect.signature(function), _Ours(where)
    names, least = _positional(signature)

    @wraps(function)
    def guarded(*args: object, **kwargs: object) -> object:
        if kwargs or not least <= len(args) <= len(names) or not _fit(function, names, args):
            try:
                given = signature.bind(*args, **kwargs)
            except TypeError:
                return function(*args, **kwargs)  # raises Python's own error about the missing or unknown argument
            _check(function, given)
            args, kwargs = given.args, given.kwargs
        with ours:
            if undo.current():
                result = function(*args, **kwargs)
            else:
                call = undo.Call()
                token = call.enter()
                try:
                    call.active = (
                        True  # set here: an interruption above must not leave this call as the current one of later calls
                    )
                    result = call.succeeded(function(*args, **kwargs))
                except BaseException as error:
                    call.failed(error)
                    raise
                finally:
                    undo.leave(token)
        return through(result, where) if isinstance(result, types.GeneratorType) else result

    return guarded


def through(items: Iterator[Item], where: str) -> Iterator[Item]:
    """The items of an iterator that a user or Arrow consumes, with every step guarded."""
    call, items = undo.Call(), iter(items)

    def step() -> Item | None:
        with _Ours(where):
            if undo.current():
                return next(items, _END)
            token = call.enter()
            try:
                call.active = True
                return call.succeeded(next(items, _END))
            except BaseException as error:
                call.failed(error)
                raise
            finally:
                undo.leave(token)

    try:
        while (item := step()) is not _END:
            yield item
    finally:
        if isinstance(items, types.GeneratorType):
            items.close()


class _Ours(NamedTuple):
    """Raises errors of other libraries as errors of this one. A class, which takes a part of the time of a generator."""

    where: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, (LakeError, MemoryError)):
            raise told(error) or foreign(error, self.where) from error


# -- arguments --------------------------------------------------------------------------------------------------------


def _same(value: object) -> object:
    return value


def _anything(value: object) -> bool:
    return True


class Type(NamedTuple):
    """The values that a parameter accepts: described in words, and as a test of a value. `made` converts an accepted value
    for the function."""

    words: str
    fits: Callable[[object], bool]
    made: Callable[[object], object] = _same


def _positional(signature: inspect.Signature) -> tuple[tuple[str, ...], float]:
    """The parameters that a call can give by position, and how many of them it must give; infinitely many if it must give another
    by name."""
    parameters = signature.parameters.values()
    named = any(one.kind is one.KEYWORD_ONLY and one.default is one.empty for one in parameters)
    positional = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    least = inf if named else sum(one.default is one.empty for one in positional)
    return tuple(one.name for one in positional), least


def _fit(function: Callable[..., object], names: Sequence[str], args: Sequence[object]) -> bool:
    """Whether arguments given by position have the right types and need no conversion. Most calls are of this kind, and `_check`
    takes longer."""
    types = _types(function)
    for name, value in zip(names, args, strict=False):
        wanted = types.get(name)
        if wanted is not None and (wanted.made is not _same or not wanted.fits(value)):
            return False
    return True


def _check(function: Callable[..., object], given: inspect.BoundArguments) -> None:
    """Refuses arguments of a wrong type, and converts numbers of other libraries to Python's."""
    for name, value in list(given.arguments.items()):
        wanted = _types(function).get(name)
        if wanted is None:
            continue
        parameter = given.signature.parameters[name]
        values = value if parameter.kind is inspect.Parameter.VAR_POSITIONAL else (value,)
        for one in values:
            if value is parameter.default or wanted.fits(one):
                continue
            verb = function.__name__
            kind = _BY_PARAMETER.get(name) or _BY_VERB.get(verb, InvalidQuery)
            cure = "correct the argument" if name in _SECRET else _cure(one, wanted)
            raise kind(
                f"{name} has the wrong type" if is_text_throughout(one) else f"{name} contains text that is not valid Unicode",
                where=f"{verb}()",
                expected=wanted.words,
                found=type(one).__name__ if name in _SECRET else short(one),
                cure=cure,
            )
        if value is not parameter.default and wanted.made is not _same:
            made = tuple(map(wanted.made, values))
            given.arguments[name] = made if parameter.kind is inspect.Parameter.VAR_POSITIONAL else made[0]


def _cure(value: object, wanted: Type) -> str:
    """How to correct a value of a wrong type."""
    if isinstance(value, str) and is_text(value) and wanted.fits([value]):
        return Wording(f"write [{value!r}]", command=f"write [{value!r}]", sql=f"write array({value!r})")
    if is_unordered(value) and wanted.fits(list(value)):
        return "pass a list: a set has no order"
    return "correct the argument"


@cache
def _types(function: Callable[..., object]) -> dict[str, Type]:
    """The testable types of the parameters of a function."""
    types = {name: type_of(hint) for name, hint in typing.get_type_hints(function).items() if name != "return"}
    return {name: wanted for name, wanted in types.items() if wanted is not None}


def is_text(value: object) -> bool:
    """Whether `value` is text that can be stored: without lone surrogates, which UTF-8 cannot encode."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_text_throughout(value: object) -> bool:
    """Whether all text in a value, or in a list or mapping of values, can be stored."""
    if isinstance(value, str):
        return is_text(value)
    if isinstance(value, Mapping):
        return all(is_text_throughout(part) for item in value.items() for part in item)
    return not isinstance(value, (list, tuple)) or all(map(is_text_throughout, value))


def _is_integer(value: object) -> bool:
    """Whether `operator.index` accepts `value` and it is not a boolean."""
    if isinstance(value, (bool, np.bool_)):
        return False
    try:
        index(value)
    except Exception:  # the __index__ of a class may raise anything
        return False
    return True


def _is_number(value: object) -> bool:
    return isinstance(value, (float, np.floating)) or _is_integer(value)


_PLAIN = {
    str: Type("text", is_text),
    bool: Type("True or False", lambda value: isinstance(value, (bool, np.bool_)), bool),
    int: Type("an integer", _is_integer, index),
    float: Type("a number", _is_number, lambda value: value if isinstance(value, (int, float)) else float(value)),
    types.NoneType: Type("None", lambda value: value is None),
    object: Type("valid text", lambda value: not isinstance(value, str) or is_text(value)),
}
_ORDERED = list, tuple, collections.abc.Sequence
_LISTS = *_ORDERED, collections.abc.Collection, collections.abc.Iterable


def type_of(hint: object) -> Type | None:
    """The test for a type annotation; None if the annotation cannot be tested."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hint is Any:
        return _PLAIN[object]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _any_of([type_of(part) for part in inner])
    if origin is Literal:
        return type_of(type(inner[0]))  # the function itself refuses unknown values, with a better message
    if origin in _LISTS or hint in _LISTS:
        return _list_of(type_of(inner[0]) if inner else None, ordered=(origin or hint) in _ORDERED)
    if origin in (dict, Mapping) or hint in (dict, Mapping):
        return _mapping_of(*map(type_of, inner or (object, object)))
    if origin is Callable or hint is Callable:
        return Type("a function", callable)
    kind = origin or hint
    if isinstance(kind, type) and not kind.__module__.startswith("lsmlake."):  # classes of lsmlake refuse wrong values themselves
        return Type(_with_article(kind.__name__), lambda value: isinstance(value, kind))
    return None


def _any_of(parts: list[Type | None]) -> Type | None:
    if None in parts:
        return None

    def made(value: object) -> object:
        return next(part.made for part in parts if part.fits(value))(value)

    words = " or ".join(part.words for part in parts)
    converts = any(part.made is not _same for part in parts)
    fits = reduce(_either, [part.fits for part in parts])  # takes less time than a generator
    return Type(words, fits, made if converts else _same)


def _either(one: Callable[[object], bool], other: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: one(value) or other(value)


def _list_of(item: Type | None, *, ordered: bool) -> Type:
    """A collection with a length, which the function gets as a list or tuple. An iterator is refused, because a test would
    consume it. `ordered`: a set is refused, because the order of its items is arbitrary."""

    def fits(value: object) -> bool:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, collections.abc.Collection):
            return False
        if ordered and is_unordered(value):
            return False
        return item is None or all(map(item.fits, value))

    def made(value: object) -> object:
        if item is not None and item.made is not _same:
            return list(map(item.made, value))
        return value if isinstance(value, (list, tuple)) else list(value)  # arrays of NumPy have another meaning of `==` and `if`

    words = {None: "a list", _PLAIN[str]: "a list of names"}.get(item) or f"a list of items that are each {item.words}"
    return Type(words, fits, made)


def is_unordered(value: object) -> bool:
    """Whether the order of the items is arbitrary: a set, but not the keys of a mapping."""
    return isinstance(value, collections.abc.Set) and not isinstance(value, collections.abc.MappingView)


def _mapping_of(key: Type | None, value: Type | None) -> Type:
    fits_key, fits_value = (_anything if part is None else part.fits for part in (key, value))

    def fits(given: object) -> bool:
        return (
            (type(given) is dict or isinstance(given, Mapping))
            and all(map(fits_key, given))
            and all(map(fits_value, given.values()))
        )

    return Type("a mapping with text as keys" if key == _PLAIN[str] else "a mapping", fits)
