"""Results as pictures: SVG files beside `results.json`, lines of the peers that came to their end.

1. `pictures` computes the pictures from the results, one per question, case and engine. Pure.
2. `draw` draws them; only this needs matplotlib.

A peer looks the same in all pictures: lsmlake red and thick, relatives (a system on Spark and in process) of one colour.
Every y begins at 0; the legend stands beside the lines, in the order of their ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from bench.peers.report import ENGINES
from bench.peers.roster import BASES, PEERS
from bench.peers.run import Result
from bench.peers.workloads.degradation import BY_ROUND
from bench.peers.workloads.delete_heavy import DEAD, OVER_DEAD
from bench.peers.workloads.stream_upsert import BY_BATCH

try:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
except ImportError:
    matplotlib = None

_OURS = "#d7191c"
_FAMILIES = {"paimon": "#1f6fb4", "iceberg": "#17a2b8", "delta": "#2e8b3d", "hudi": "#e08a00", "duckdb": "#222222"}
_OTHERS = ("#8c564b", "#9467bd", "#7f7f7f", "#bcbd22", "#e377c2", "#3f51b5")
_DASHES = ("-", "--", ":", "-.")
_MARKERS = "osD^vP"
_MARKED = 30  # points, at most: more of them hide the line
_PARAMETERS = {
    "svg.fonttype": "none",  # names stay text
    "svg.hashsalt": "peers",  # the same results, the same file
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


class NoMatplotlib(Exception):
    """What to do to get plots."""


class Picture(NamedTuple):
    """`where`: below the title. `lines`: by peer, x and y. `kind` of x: "count", "share" or "size", which is drawn
    logarithmically. `level`: (y, what it stands for) of a line to compare with."""

    name: str
    title: str
    where: str
    x: str
    y: str
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    kind: str = "count"
    level: tuple[float, str] | None = None


class Look(NamedTuple):
    colour: str
    dashes: str
    marker: str
    width: float


# -- what is to be seen -----------------------------------------------------------------------------------------------


def pictures(results: Sequence[Result]) -> list[Picture]:
    done = [one for one in results if one.status == "ok"]
    return [*_by_batch(done), *_over_size(done), *_over_deleted(done), *_by_round(done)]


def _by_batch(done: Sequence[Result]) -> Iterator[Picture]:
    for first, group in _together(done, "stream_upsert", BY_BATCH):
        title, lines = "Upserts, batch after batch", {one.peer: _counted(one.series[BY_BATCH]) for one in group}
        yield Picture(_name("upsert-rate", first), title, _where(first), "batch", "upserted rows per second", lines)


def _over_size(done: Sequence[Result]) -> Iterator[Picture]:
    """Where there is more than one size."""
    streams = [one for one in done if one.workload == "stream_upsert" and one.measures.get("rows/s")]
    for (engine, keys), group in groupby(sorted(streams, key=_by_keys), _by_keys):
        lines = {}
        for one in sorted(group, key=lambda one: one.stream["rows"]):
            xs, ys = lines.setdefault(one.peer, ([], []))
            xs.append(one.stream["rows"])
            ys.append(1e6 / one.measures["rows/s"])
        if len({x for xs, _ in lines.values() for x in xs}) > 1:
            title, where = "Upserts, cost of a row over the size of the table", f"{keys} keys, {ENGINES[engine]}"
            x, y = "rows in the table at first", "seconds per million rows upserted"
            yield Picture(f"upsert-cost-{keys}-{engine}", title, where, x, y, lines, "size")


def _over_deleted(done: Sequence[Result]) -> Iterator[Picture]:
    for first, group in _together(done, "delete_heavy", OVER_DEAD):
        title, x = "Grouped read while rows are deleted, against plain Parquet", "share of the keys deleted so far"
        lines = {one.peer: (one.series[DEAD], one.series[OVER_DEAD]) for one in group}
        y, level = "time / time of plain Parquet, nothing deleted", (1, "plain Parquet")
        yield Picture(_name("deleted-read", first), title, _where(first), x, y, lines, "share", level)


def _by_round(done: Sequence[Result]) -> Iterator[Picture]:
    series = BY_ROUND.format("grouped")
    for first, group in _together(done, "degradation", series):
        title, lines = "Grouped read, round after round of upserts", {one.peer: _counted(one.series[series]) for one in group}
        yield Picture(_name("round-read", first), title, _where(first), "round", "seconds of the read", lines)


def _together(done: Sequence[Result], workload: str, series: str) -> Iterator[tuple[Result, list[Result]]]:
    """Results of a case and engine that have the series."""
    found: dict[tuple[str, str], list[Result]] = {}
    for one in done:
        if one.workload == workload and series in one.series:
            found.setdefault((one.case, one.engine), []).append(one)
    return ((group[0], group) for group in found.values())


def _by_keys(one: Result) -> tuple[str, str]:
    return one.engine, one.stream["keys"]


def _counted(values: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    return range(1, len(values) + 1), values


def _where(one: Result) -> str:
    source = one.stream.get("source")
    return ", ".join([one.case, *([f"rows of {source}"] if source else []), ENGINES[one.engine]])


def _name(what: str, one: Result) -> str:
    case = re.sub(r"\W+", "-", one.case.replace(",", ""))
    return f"{what}-{case}-{one.engine}"


def look(peer: str) -> Look:
    """Of a peer, in whichever picture. Relatives of one engine differ by dashes."""
    family = next((word for word in _FAMILIES if word in peer), None)
    if peer.startswith("lsmlake"):
        own = peer in BASES.values()
        return Look(_OURS, "-" if own else "--", "o", 3.2 if own else 2)
    strangers = [name for name in PEERS if not name.startswith("lsmlake") and not any(word in name for word in _FAMILIES)]
    if family is None:
        place = strangers.index(peer) if peer in strangers else len(strangers)
        return Look(_OTHERS[place % len(_OTHERS)], "-", _MARKERS[place % len(_MARKERS)], 1.5)
    engine = PEERS[peer].engine if peer in PEERS else None
    relatives = [name for name, entry in PEERS.items() if family in name and entry.engine == engine]
    place = relatives.index(peer) if peer in relatives else len(relatives)
    marker = _MARKERS[(1 + list(_FAMILIES).index(family)) % len(_MARKERS)]
    return Look(_FAMILIES[family], _DASHES[place % len(_DASHES)], marker, 1.5)


# -- drawing ----------------------------------------------------------------------------------------------------------


def draw(out: Path, results: Sequence[Result]) -> list[Path]:
    """The files written. Raises NoMatplotlib."""
    if matplotlib is None:
        raise NoMatplotlib("no plots: matplotlib is not installed (pip install matplotlib, or the extra lsmlake[bench])")
    written = []
    for picture in pictures(results):
        path = out / f"{picture.name}.svg"
        with matplotlib.rc_context(_PARAMETERS):
            figure(picture).savefig(path, metadata={"Date": None})
        written.append(path)
    return written


def figure(picture: Picture) -> Figure:
    drawn = Figure(figsize=(9, 4.8), layout="constrained")
    axes = drawn.subplots()
    handles = {peer: _line(axes, peer, *points) for peer, points in picture.lines.items()}
    names = sorted(handles, key=lambda peer: -picture.lines[peer][1][-1])
    if picture.level:
        y, what = picture.level
        handles[what] = axes.axhline(y, color="#555555", linewidth=1, linestyle=(0, (1, 2)))
        names.append(what)
    drawn.legend([handles[name] for name in names], names, loc="outside right upper", frameon=False)
    axes.set_title(picture.title, loc="left", fontsize=11.5, fontweight="bold", pad=24)
    axes.annotate(picture.where, (0, 1), (0, 8), "axes fraction", textcoords="offset points", color="#555555")
    axes.set_xlabel(picture.x)
    axes.set_ylabel(picture.y)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.grid(axis="y", color="#dddddd")
    axes.set_axisbelow(True)
    _mark_x(axes, picture)
    return drawn


def _line(axes: matplotlib.axes.Axes, peer: str, xs: Sequence[float], ys: Sequence[float]) -> matplotlib.lines.Line2D:
    colour, dashes, marker, width = look(peer)
    (line,) = axes.plot(xs, ys, color=colour, linestyle=dashes, linewidth=width, marker=marker, markersize=width + 3)
    line.set_zorder(3 if colour == _OURS else 2)
    if len(ys) > _MARKED:
        line.set_marker("")
    return line


def _mark_x(axes: matplotlib.axes.Axes, picture: Picture) -> None:
    if picture.kind == "share":
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    elif picture.kind == "size":
        sizes = sorted({x for xs, _ in picture.lines.values() for x in xs})
        axes.set_xscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
