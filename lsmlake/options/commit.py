"""Options of commits: retries, and the size of manifests."""

from __future__ import annotations

from dataclasses import dataclass

from lsmlake.options.option import option
from lsmlake.options.types import duration, integer, size


@dataclass(frozen=True)
class CommitOptions:
    retries: int = option("commit.max-retries", integer(0), 10, "attempts after the first one, if other commits come first")
    wait_min_ms: int = option("commit.min-retry-wait", duration, 10, "first wait between attempts")
    wait_max_ms: int = option("commit.max-retry-wait", duration, 10_000, "longest wait between attempts")
    manifest_target_bytes: int = option("manifest.target-file-size", size, 1 << 20, "size of merged manifests")
    manifest_merge_count: int = option("manifest.merge-min-count", integer(2), 30, "small manifests that start a merge")
