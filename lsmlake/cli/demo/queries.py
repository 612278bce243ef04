"""The two questions the demo asks of the table, in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.columns import Columns
from rich.console import Group
from rich.table import Table as Grid
from rich.text import Text

DELAYS = """
    SELECT carrier, count(*) AS flights, avg(arr_delay) AS late
    FROM {flights} WHERE status = 'arrived' GROUP BY carrier ORDER BY late DESC
"""
CANCELLATIONS = """
    SELECT month, count(*) AS flights, count_if(status = 'cancelled') AS cancelled
    FROM {flights} GROUP BY month ORDER BY month
"""
_LEAST_CARRIERS = 5


def answers(ask: Callable[[str], list[dict]]) -> Columns:
    """Both answers, side by side if there is room. `ask`: answers a query."""
    months = ask(CANCELLATIONS)
    carriers = ask(DELAYS)[: max(_LEAST_CARRIERS, len(months))]
    late = [(row["carrier"], f"{row['flights']:,}", _minutes(row["late"])) for row in carriers]
    cancelled = [(row["month"], f"{row['flights']:,}", f"{row['cancelled']:,}", _share(row)) for row in months]
    return Columns(
        [
            _answer("average delay by carrier, the worst first", ("carrier", "arrived", "minutes"), late),
            _answer("cancellations by month", ("month", "flights", "cancelled", ""), cancelled),
        ],
        padding=(0, 6),
    )


def _minutes(late: float | None) -> str:
    return "-" if late is None else f"{round(late, 1) + 0.0:.1f}"  # + 0.0: no -0.0


def _share(month: dict) -> str:
    return f"{month['cancelled'] / month['flights']:.1%}"


def _answer(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Group:
    grid = Grid(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for number, name in enumerate(names):
        grid.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*row)
    return Group(Text(title, "bold"), grid)
