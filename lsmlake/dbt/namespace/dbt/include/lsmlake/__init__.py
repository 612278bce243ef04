"""The macros of the adapter. `PACKAGE_PATH`: their folder."""

from pathlib import Path

PACKAGE_PATH = str(Path(__file__).parent)
