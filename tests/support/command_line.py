"""Calls of commands in this process."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from lsmlake.cli.app import app


def call(*args: str | Path, env: dict[str, str] | None = None, code: int = 0) -> str:
    """Standard output of a call that ends with `code`, and says something on standard error only if that is not 0."""
    result = CliRunner().invoke(app, [str(arg) for arg in args], env={"LSMLAKE_WAREHOUSE": "", **(env or {})})
    assert result.exit_code == code, result.output
    assert bool(result.stderr) == bool(code), result.stderr
    return result.stdout


def complaint(*args: str | Path, code: int = 2, env: dict[str, str] | None = None) -> str:
    """The one line on standard error of a call that fails with `code`; it prints nothing else."""
    result = CliRunner().invoke(app, [str(arg) for arg in args], env={"LSMLAKE_WAREHOUSE": "", **(env or {})})
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert result.stderr.startswith("error: ") and result.stderr.endswith("\n") and result.stderr.count("\n") == 1, result.stderr
    return result.stderr[len("error: ") : -1]
