"""The command line of the measurements: see the package."""

from __future__ import annotations

import argparse
import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import embedded_upsert
from bench.result import Report, markdown, text

WORKLOADS: dict[str, Callable[..., Report]] = {
    "embedded_upsert": embedded_upsert.run,
}
