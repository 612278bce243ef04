"""Ctrl-C ends a command with exit code 130, one line and no traceback, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from interrupts import Bench, states, temporary_folder_at
from naive import unreferenced

from lsmlake import Lake
from lsmlake.cli.main import run
from lsmlake.storage.local import LocalStorage
from lsmlake.storage.storage import TEMPORARY

JOIN = "SELECT t.id, p.text FROM d.t JOIN d.p USING (id)"
MERGE = "MERGE INTO d.t USING d.p s ON d.t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v + 1 WHEN NOT MATCHED THEN INSERT *"
COMMANDS: dict[str, list[str]] = {
    "load": ["load", "d.t", "{}/files/0.csv"],
    "load --create": ["load", "d.new", "{}/files/0.csv", "--create", "--primary-key", "id"],
    "load --overwrite": ["load", "d.p", "{}/files/1.json", "--overwrite"],
    "adopt": ["adopt", "{}/files/parquet", "d.new"],
    "compact": ["compact", "d.t", "--full"],
    "sql csv": ["sql", JOIN, "--format", "csv"],
    "sql file": ["sql", JOIN, "--output", "{}/rows.parquet"],
    "sql merge": ["sql", MERGE],
    "changes": ["changes", "d.t", "1"],
    "head": ["head", "d.t", "--limit", "1000"],  # all rows: of a read ahead that nobody waits for, no error arrives
    "show": ["show", "d.t"],
    "ls": ["ls"],
    "verify": ["verify", "d.t"],
    "analyze": ["analyze", "d.t"],
    "expire": ["expire", "d.t", "--retain-max", "1", "--retain-min", "1", "--older-than", "2100-01-01"],
    "orphans": ["orphans", "d.t"],
    "copy": ["copy", "d.t", "{}/other"],
    "iceberg": ["iceberg", "d.t"],
    "history": ["history", "d.t", "d.h"],
    "refresh": ["refresh", "d.v", "--full"],
    "maintain": ["maintain"],
    "health": ["health"],
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Bench:
    return Bench(tmp_path_factory.mktemp("interrupts"))


class Presses:
    """Counts what a command reads, writes and lists, and presses Ctrl-C at call `number`."""

    def __init__(self, number: int) -> None:
        self.calls, self.number = 0, number

    def on(self, method: Callable[..., object]) -> Callable[..., object]:
        def counted(*given: object) -> object:
            self.calls += 1
            if self.calls == self.number:
                raise KeyboardInterrupt
            return method(*given)

        return counted


def outcome(command: str, presses: Presses, lake: Path, capsys: pytest.CaptureFixture) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    words = [word.format(lake.parent) for word in COMMANDS[command]]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", ["lsmlake", *words, "-w", str(lake)])
        patch.setattr(signal, "signal", lambda *_: None)
        for name in ("read", "write", "put_if_absent", "list", "size"):
            patch.setattr(LocalStorage, name, presses.on(getattr(LocalStorage, name)))
        run()
    return ended.value.code or 0, *capsys.readouterr()


@pytest.mark.parametrize("command", list(COMMANDS))
def test_ctrl_c_ends_a_command_in_one_line(command, bench, tmp_path, capsys):
    whole, lake = Presses(-1), bench.lake("whole")
    code, _, error = outcome(command, whole, bench.root / "whole" / "lake", capsys)
    assert (code, error) == (0, "")
    after = states(lake)
    for number in sorted({(whole.calls + 1) // 2, whole.calls}):
        lake, root = bench.lake("trial"), bench.root / "trial"
        with temporary_folder_at(tmp_path / "tmp") as folder:
            assert outcome(command, Presses(number), root / "lake", capsys) == (130, "", "interrupted\n")
            assert list(folder.iterdir()) == []
        assert states(lake) in (bench.before, after)
        assert left(lake, root) == []


def left(lake: Lake, root: Path) -> list[str]:
    """Files that nothing names."""
    temporary = [str(path) for path in root.rglob(f"{TEMPORARY}*")]
    return temporary + [path for name in lake.tables() for path in unreferenced(lake.table(name))]


@pytest.mark.parametrize("module", ["typer", "pyarrow"])
def test_ctrl_c_ends_a_program_that_still_loads_modules(module, bench, tmp_path):
    """A module is found where one press of Ctrl-C is the first thing that it does."""
    (tmp_path / f"{module}.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    program = "from lsmlake.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", program, "ls", "-w", str(bench.root / "base" / "lake")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
