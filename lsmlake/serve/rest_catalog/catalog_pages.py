"""Pages of a list, by the specification: all of it unless the client asks for pages. The token of the next page is the last name
of this one, so pages stay right while tables come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from lsmlake.serve.rest_catalog.catalog_errors import Refused
from lsmlake.serve.rest_catalog.catalog_request import CatalogRequest
from lsmlake.storage.concurrency import side_by_side

PAGE = 1_000
"""The names on a page, unless the client says how many."""


class NamePage(NamedTuple):
    """Names, and the token of the next page; None: there is none."""

    names: list[str]
    token: str | None


def page_of(asked: CatalogRequest, names: Sequence[str], exists: Callable[[str], bool]) -> NamePage:
    """The page that a request asks for. `names`: ascending. `exists`: whether a name is one of the list; called for those that
    the page needs only, since each call may be a request to a store."""
    token, size = asked.query("pageToken"), asked.query("pageSize")
    if size is not None and (not size.isdecimal() or len(size) > 9 or int(size) < 1):
        raise Refused(400, "BadRequestException", f"pageSize is a number, 1 or more, not {size!r}")
    wanted = PAGE if size is None else int(size)
    found: list[str] = []
    rest = [name for name in names if name > (token or "")]
    at_once = asked.lake.env.storage.at_once
    while rest and (token is None or len(found) <= wanted):
        step = rest if token is None else rest[: wanted + 1 - len(found)]
        rest = rest[len(step) :]
        kept = side_by_side([partial(exists, name) for name in step], at_once)
        found += [name for name, is_there in zip(step, kept, strict=True) if is_there]
    if token is None or len(found) <= wanted:
        return NamePage(found, None)
    return NamePage(found[:wanted], found[wanted - 1])
