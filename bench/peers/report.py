"""Results as tables and as JSON. A ratio divides a peer's figure by that of lsmlake in the same engine and case."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.peers.roster import BASES
from bench.peers.run import Result

_WIDTH = 200
_ERROR_CHARS = 160
_ENGINES = {"spark": "on Spark", "arrow": "in process"}


def write(out: Path, results: Sequence[Result], machine: str) -> None:
    """`results.json`: {machine, results: [result with ratios]}."""
    out.mkdir(parents=True, exist_ok=True)
    rows = [{**asdict(result), "ratios": ratios(result, results)} for result in results]
    (out / "results.json").write_text(json.dumps({"machine": machine, "results": rows}, indent=1))


def ratios(result: Result, results: Sequence[Result]) -> dict[str, float]:
    """By measure, the peer's figure / lsmlake's."""
    same = (result.engine, result.workload, result.case)
    bases = (one for one in results if (one.engine, one.workload, one.case) == same and one.peer == BASES[result.engine])
    base = next(bases, None)
    if base is None:
        return {}
    return {name: value / base.measures[name] for name, value in result.measures.items() if base.measures.get(name)}


def show(results: Sequence[Result], console: Console | None = None) -> None:
    console = console or Console(width=_WIDTH)
    for (workload, case, engine), group in groupby(results, lambda one: (one.workload, one.case, one.engine)):
        _show_case(console, f"{workload}: {case}, {_ENGINES[engine]}", list(group), results)
    _show_growth(console, results)
    for result in {one.peer: one for one in results if one.settings}.values():
        told = ", ".join(f"{name} = {value}" for name, value in result.settings.items())
        console.print(f"[bold]{result.peer}[/bold] {result.version}: {told}", highlight=False)


def _show_case(console: Console, title: str, group: list[Result], results: Sequence[Result]) -> None:
    table = Table("", *(one.peer for one in group))
    table.add_row("", *(one.status for one in group))
    divided = [ratios(one, results) for one in group]
    for name in dict.fromkeys(name for one in group for name in one.measures):
        table.add_row(name, *(_cell(name, one.measures, by) for one, by in zip(group, divided, strict=True)))
    console.print(f"\n[bold]{title}[/bold]")
    console.print(table)
    for one in group:
        if one.error:
            console.print(f"  {one.peer}: {one.error[:_ERROR_CHARS]}", highlight=False, markup=False)


def _cell(name: str, measures: Mapping[str, float], divided: Mapping[str, float]) -> str:
    if name not in measures:
        return ""
    return f"{figure(measures[name])}" + (f" [dim]x{divided[name]:.2f}[/dim]" if name in divided else "")


def figure(amount: float) -> str:
    return f"{amount:,.0f}" if abs(amount) >= 1_000 else f"{amount:.3g}"


def _show_growth(console: Console, results: Sequence[Result]) -> None:
    """Cost of a row in the largest table over that in the smallest, where a stream ran on several sizes."""
    streams = [one for one in results if one.workload == "stream_upsert" and one.status == "ok"]
    lines = []
    for (peer, keys), group in groupby(sorted(streams, key=_by_size), lambda one: (one.peer, one.stream["keys"])):
        sizes = list(group)
        if len(sizes) > 1:
            factor = sizes[0].measures["rows/s"] / sizes[-1].measures["rows/s"]
            least, most = (f"{sizes[end].stream['rows']:,}" for end in (0, -1))
            lines.append(f"  {peer}, {keys} keys: x{factor:.2f} from {least} to {most} rows")
    if lines:
        console.print("\n".join(["growth of the cost of a row with N", *lines]), highlight=False)


def _by_size(one: Result) -> tuple[object, ...]:
    return one.peer, one.stream["keys"], one.stream["rows"]
