"""Shortens text to a width in terminal cells and marks the omission."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size


def end_elided(text: str, width: int, mark: str = "…") -> str:
    """Returns `text` in at most `width` cells; if it is longer, `mark` replaces its end."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - cell_len(mark), 0)).rstrip() + mark


def middle_elided(text: str, width: int, mark: str = "…") -> str:
    """Returns `text` in at most `width` cells; if it is longer, `mark` replaces its middle, since names differ at both ends."""
    if cell_len(text) <= width:
        return text
    room = max(width - cell_len(mark), 0)
    end = text[len(text) - room // 2 :] if room >= 2 else ""
    while cell_len(end) > room // 2:  # characters of two cells
        end = end[1:]
    return set_cell_size(text, room - cell_len(end)).rstrip() + mark + end
