"""The pages of the site in sections, in reading order. A test finds a page that is missing here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

DOCUMENTS = {path.stem.lower(): path for path in sorted((Path(__file__).parents[2] / "docs").glob("*.md"))}
"""Name -> a document that is written by hand."""
PICTURES = sorted((Path(__file__).parents[2] / "docs" / "pictures").glob("*.svg"))
CONTRIBUTING = Path(__file__).parents[3] / ".github" / "CONTRIBUTING.md"
"""How to contribute: part of a checkout, not of an installed package."""

SECTIONS: Mapping[str, Sequence[str]] = {
    "Tutorial": ("install", "tutorial", "how_it_works", "words"),
    "How to": (
        "data",
        "change_streams",
        "database_sync",
        "history",
        "merging",
        "rows",
        "columns",
        "partitions",
        "buckets",
        "versions",
        "indexes",
        "view_tables",
        "maintenance",
        "serve",
        "page",
        "stores",
        "spark",
        "polars",
        "duckdb",
        "splits",
        "dlt",
        "dbt",
        "orchestration",
        "command_line",
    ),
    "Iceberg": ("iceberg", "pyiceberg", "spark_iceberg", "trino"),
    "Moving to lsmlake": ("moving", "import"),
    "Reference": (
        "api",
        "api_lake",
        "api_table",
        "api_reads",
        "api_changes",
        "api_cdc",
        "api_alterations",
        "commands",
        "options",
        "sql",
        "system_tables",
        "errors",
    ),
    "Explanation": ("guarantees", "limits", "format", "format_branches", "format_iceberg", "implementation"),
    "Project": ("releases", "policy", "contributing"),
}
"""Title of a section -> its pages. A page that is no document is generated (`reference`), or is `CONTRIBUTING`."""


def title_of(text: str) -> str:
    """The title of a page: its first line."""
    return text.partition("\n")[0].removeprefix("# ")
