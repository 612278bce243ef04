"""Results as tables and as JSON. A ratio divides a peer's figure by that of lsmlake in the same engine and case."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.peers.roster import BASES, PEERS
from bench.peers.run import Result
from bench.peers.workloads import ALL

ENGINES = {"spark": "on Spark", "arrow": "in process"}
_FILE = "results.json"
_WIDTH = 200
_ERROR_CHARS = 160


class Unlike(Exception):
    """Results that cannot stand beside each other."""


# -- as JSON ----------------------------------------------------------------------------------------------------------


def write(out: Path, results: Sequence[Result], machine: str) -> None:
    """`results.json`: {machine, results: [result with ratios]}."""
    out.mkdir(parents=True, exist_ok=True)
    rows = [{**asdict(result), "ratios": ratios(result, results)} for result in results]
    (out / _FILE).write_text(json.dumps({"machine": machine, "results": rows}, indent=1))


def read(folder: Path) -> tuple[list[Result], str]:
    """The results that were written there, and the machine they are of. Raises OSError, ValueError."""
    content = json.loads((folder / _FILE).read_text())
    known = {one.name for one in fields(Result)}
    rows = ({name: value for name, value in row.items() if name in known} for row in content["results"])
    return [Result(**row) for row in rows], content["machine"]


def merged(runs: Sequence[Sequence[Result]]) -> list[Result]:
    """Of a peer on a case the last result, cases as they came first, peers as in the roster. Raises Unlike if a case is of other
    data in one run than in another."""
    found = {(one.workload, one.case, one.peer): one for results in runs for one in results}
    streams: dict[tuple[str, str], Mapping[str, object]] = {}
    for one in found.values():
        stream = streams.setdefault((one.workload, one.case), one.stream)
        if any(stream[name] != one.stream[name] for name in stream.keys() & one.stream.keys()):
            raise Unlike(f"{one.workload}: {one.case} is of other data in one run than in another: {stream}, {one.stream}")
    places = [[*ALL], [*streams], [*ENGINES], [*PEERS]]
    return sorted(found.values(), key=lambda one: _place(places, (one.workload, (one.workload, one.case), one.engine, one.peer)))


def _place(places: Sequence[list], of: Sequence[object]) -> list[int]:
    """What is not known any more comes last."""
    return [known.index(one) if one in known else len(known) for known, one in zip(places, of, strict=True)]


# -- ratios -----------------------------------------------------------------------------------------------------------


def ratios(result: Result, results: Sequence[Result]) -> dict[str, float]:
    """By measure, the peer's figure / lsmlake's."""
    same = (result.engine, result.workload, result.case)
    bases = (one for one in results if (one.engine, one.workload, one.case) == same and one.peer == BASES[result.engine])
    base = next(bases, None)
    if base is None:
        return {}
    return {name: value / base.measures[name] for name, value in result.measures.items() if base.measures.get(name)}


def figure(amount: float) -> str:
    return f"{amount:,.0f}" if abs(amount) >= 1_000 else f"{amount:.3g}"


def _cases(results: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
    """What is compared with each other, and its title."""
    for (workload, case, engine), group in groupby(results, lambda one: (one.workload, one.case, one.engine)):
        yield f"{workload}: {case}, {ENGINES[engine]}", list(group)


def _measures(group: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(name for one in group for name in one.measures))


def _growth(results: Sequence[Result]) -> list[str]:
    """Cost of a row in the largest table over that in the smallest, where a stream ran on several sizes."""
    streams = [one for one in results if one.workload == "stream_upsert" and one.status == "ok"]
    lines = []
    for (peer, keys), group in groupby(sorted(streams, key=_by_size), lambda one: (one.peer, one.stream["keys"])):
        sizes = list(group)
        if len(sizes) > 1:
            factor = sizes[0].measures["rows/s"] / sizes[-1].measures["rows/s"]
            least, most = (f"{sizes[end].stream['rows']:,}" for end in (0, -1))
            lines.append(f"{peer}, {keys} keys: x{factor:.2f} from {least} to {most} rows")
    return lines


def _by_size(one: Result) -> tuple[object, ...]:
    return one.peer, one.stream["keys"], one.stream["rows"]


def _never(results: Sequence[Result]) -> dict[str, str]:
    """Peers that came to no end at all, with the reason they gave first."""
    failed = {one.peer: one for one in reversed(results) if one.error}
    done = {one.peer for one in results if one.measures}
    return {peer: f"{one.status}: {_one_line(one.error)}" for peer, one in reversed(failed.items()) if peer not in done}


def _settings(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    """By peer, its version and what is not its default."""
    for one in {one.peer: one for one in results if one.settings}.values():
        yield one.peer, f"{one.version}: " + ", ".join(f"{name} = {value}" for name, value in one.settings.items())


# -- on the screen ----------------------------------------------------------------------------------------------------


def show(results: Sequence[Result], console: Console | None = None) -> None:
    console = console or Console(width=_WIDTH)
    never = _never(results)
    for title, group in _cases([one for one in results if one.peer not in never]):
        _show_case(console, title, group, results)
    for peer, reason in never.items():
        console.print(f"{peer} never came to an end: {reason}", highlight=False, markup=False)
    if growth := _growth(results):
        console.print("\n  ".join(["growth of the cost of a row with N", *growth]), highlight=False)
    for peer, settings in _settings(results):
        console.print(f"[bold]{peer}[/bold] {settings}", highlight=False)


def _show_case(console: Console, title: str, group: list[Result], results: Sequence[Result]) -> None:
    table = Table("", *(one.peer for one in group))
    table.add_row("", *(one.status for one in group))
    divided = [ratios(one, results) for one in group]
    for name in _measures(group):
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


# -- as Markdown ------------------------------------------------------------------------------------------------------


def markdown(results: Sequence[Result], machine: str) -> str:
    """For RESULTS.md: a table per case and engine, below it the peers that did not finish."""
    never = _never(results)
    ran = [one for one in results if one.peer not in never]
    parts = [machine, *(_markdown_case(title, group, ran) for title, group in _cases(ran))]
    if never:
        parts.append(_listed("Never came to an end:", [f"{peer}: {reason}" for peer, reason in never.items()]))
    if growth := _growth(results):
        parts.append(_listed("Growth of the cost of a row with N:", growth))
    parts.append(
        _listed("Versions, and what is not a peer's default:", [f"{peer} {named}" for peer, named in _settings(results)])
    )
    return "\n\n".join(parts) + "\n"


def _markdown_case(title: str, group: list[Result], results: Sequence[Result]) -> str:
    done = [one for one in group if one.measures]
    divided = [ratios(one, results) for one in done]
    lines = [["", *(one.peer for one in done)], ["---", *("---:" for _ in done)]]
    for name in _measures(done):
        cells = (_markdown_cell(name, one, by) for one, by in zip(done, divided, strict=True))
        lines.append([name, *cells])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    errors = [f"{one.peer}: {one.status}: {_one_line(one.error)}" for one in group if one.error]
    return "\n\n".join([f"#### {title}", *([table] if done else []), *([_listed("", errors)] if errors else [])])


def _markdown_cell(name: str, one: Result, divided: Mapping[str, float]) -> str:
    if name not in one.measures:
        return ""
    ratio = f" (x{divided[name]:.2f})" if name in divided and one.peer != BASES[one.engine] else ""
    return figure(one.measures[name]) + ratio


def _listed(title: str, lines: Sequence[str]) -> str:
    return "\n".join([*([title, ""] if title else []), *(f"- {line}" for line in lines)])


def _one_line(error: str) -> str:
    return " ".join(error.split())[:_ERROR_CHARS]
