"""Plans of tables with several small manifests."""

from __future__ import annotations

from lsmlake.read.plan import Plan

SMALL = {"manifest.merge-min-count": 3, "manifest.target-file-size": "300 b", "bucket": 3}


def described(plan: Plan) -> list[object]:
    """What a plan reads, whatever the order of its splits and their files."""
    return sorted(
        str((split.bucket, sorted(split.vectors.items())))
        + str([sorted(map(repr, files)) for files in (split.files, split.level0, split.lookup_files, split.merged)])
        for split in plan.splits
    )
