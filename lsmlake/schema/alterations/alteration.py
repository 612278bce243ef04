"""`Alteration`: a step from draft to draft."""

from __future__ import annotations

from abc import ABC, abstractmethod

from lsmlake.schema.alterations.draft import Draft


class Alteration(ABC):
    """One alteration. The functions that users call, such as `add_column`, are in `api.alterations`."""

    @abstractmethod
    def apply(self, draft: Draft) -> Draft:
        """Returns the altered draft. Raises InvalidSchema, InvalidOption."""
