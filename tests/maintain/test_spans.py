"""Spans of OpenTelemetry around commits and compactions, in a program that has loaded its package: real ones, in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk")

_PROGRAM = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

kept, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)

import lsmlake

lake = lsmlake.connect("memory://spans")
lake.create_database("d")
table = lake.create_table("d.t", "id INT NOT NULL", primary_key=["id"], options={"bucket": 1})
table.upsert({"id": [1]}, compact=False)
table.upsert({"id": [2, 3]}, compact=False)
table.compact(full=True)
for span in kept.get_finished_spans():
    said = {name.removeprefix("lsmlake."): value for name, value in span.attributes.items()}
    print(span.name, *(said[name] for name in ("table", "kind", "files_in", "files_out", "rows") if name in said))
"""
"""A process of its own: a provider of spans is set once in a process."""


def test_each_commit_and_each_compaction_is_a_span_with_its_numbers():
    root = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", _PROGRAM], cwd=root, capture_output=True, text=True, timeout=600)
    assert done.stdout.splitlines() == [
        "lsmlake.commit d.db/t APPEND 1",
        "lsmlake.commit d.db/t APPEND 2",
        "lsmlake.commit d.db/t COMPACT 0",
        "lsmlake.compact d.db/t 2 1 3",
    ], done.stderr
