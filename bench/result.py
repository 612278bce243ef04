"""The result of a workload, as a value and as text."""

from __future__ import annotations

import operator
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("lsmlake", "pyspark", "pyarrow", "numpy")
_VERDICT = {True: "hit", False: "miss", None: "-"}


@dataclass(frozen=True)
class Measure:
    """`ours` against `theirs`, both in `unit`; `theirs` None: `ours` is an absolute figure. `target` is the bound of `value`, the
    most it may be or, `at_least`, the least; None: reported only."""

    what: str
    ours: float
    theirs: float | None
    unit: str = "s"
    target: float | None = None
    at_least: bool = False

    @property
    def value(self) -> float:
        """The ratio, or the figure itself. Not a number if the other side took no time that the clock can tell."""
        if self.theirs is None:
            return self.ours
        return self.ours / self.theirs if self.theirs else float("nan")

    @property
    def hit(self) -> bool | None:
        if self.target is None:
            return None
        return (operator.ge if self.at_least else operator.le)(self.value, self.target)


@dataclass(frozen=True)
class Report:
    """`method`: how often and in which order was timed, and what of it counts. `checksum`: rows and hash of the answer both sides
    gave. `notes`: what else a reader should know."""

    workload: str
    method: str
    sizes: Mapping[str, str]
    checksum: str
    measures: tuple[Measure, ...]
    notes: tuple[str, ...] = field(default=())


def machine() -> str:
    """Cores, memory, versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = [f"python {platform.python_version()}", *(f"{name} {_version(name)}" for name in _PACKAGES)]
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}; {', '.join(versions)}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def text(report: Report) -> str:
    lines = [f"{report.workload}: {report.method}", f"  machine  {machine()}"]
    lines += [f"  {name:8} {value}" for name, value in report.sizes.items()]
    lines.append(f"  answer   {report.checksum}")
    for measure in report.measures:
        what, ours, theirs, value, target, verdict = _cells(measure)
        lines.append(f"  {what:52} {ours:>12} {theirs:>12} {value:>9} {target:>10}  {verdict}")
    return "\n".join([*lines, *(f"  note: {note}" for note in report.notes)])


def markdown(report: Report) -> str:
    """A section of RESULTS.md, without its date."""
    sizes = "; ".join(f"{name}: {value}" for name, value in report.sizes.items())
    lines = [f"### {report.workload}", "", f"{machine()}. {sizes}. {report.method}. Answer: {report.checksum}.", ""]
    lines += ["| what | lsmlake | other | value | target | |", "|---|---:|---:|---:|---:|---|"]
    lines += [f"| {' | '.join(_cells(measure))} |" for measure in report.measures]
    return "\n".join([*lines, "", *(f"- {note}" for note in report.notes)]).rstrip() + "\n"


def _cells(measure: Measure) -> tuple[str, ...]:
    sign = ">=" if measure.at_least else "<="
    return (
        measure.what,
        _figure(measure.ours, measure.unit),
        "" if measure.theirs is None else _figure(measure.theirs, measure.unit),
        _figure(measure.value, measure.unit) if measure.theirs is None else f"x {measure.value:.2f}",
        "" if measure.target is None else f"{sign} {measure.target:g}",
        _VERDICT[measure.hit],
    )


def _figure(amount: float, unit: str) -> str:
    return f"{amount:,.0f} {unit}" if amount >= 1_000 else f"{amount:.3g} {unit}"
