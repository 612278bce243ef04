"""Alterations of options, and of the comment of the table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lsmlake.options.table_options import check_name
from lsmlake.schema.alterations.alteration import Alteration
from lsmlake.schema.alterations.draft import Draft


@dataclass(frozen=True)
class SetOption(Alteration):
    """A new value of an option. None resets it to its default."""

    option: str
    value: object | None

    def apply(self, draft: Draft) -> Draft:
        check_name(self.option, draft.where)
        options = {name: value for name, value in draft.options.items() if name != self.option or self.value is not None}
        return replace(draft, options=options if self.value is None else {**options, self.option: self.value})


@dataclass(frozen=True)
class SetTableComment(Alteration):
    """Another description of the table; None: it has none."""

    comment: str | None

    def apply(self, draft: Draft) -> Draft:
        return replace(draft, comment=self.comment or None)
