"""Pipelines of dlt in folders of their own, quiet and without telemetry."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "RUNTIME__DLTHUB_TELEMETRY": "false",
        "RUNTIME__LOG_LEVEL": "CRITICAL",
        "LOAD__WORKERS": "2",
        "NORMALIZE__WORKERS": "1",
    }.items():
        monkeypatch.setenv(name, value)
