"""Fits the messages of a commit to the buckets of the version that it follows.

A writer gives rows to the buckets of the version that it has read. If a bucket was split or merged meanwhile, its files are
divided among the buckets that have its keys now (`files.divide`), so a writer never fails because of that. A compaction of such a
bucket is dropped, like one that another compaction overtook.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lsmlake.commit.request import Request
from lsmlake.files.divide import Division, NewBucket, OldBucket
from lsmlake.format.data_files import Bucket, BucketEdit, BucketState, CommitMessage
from lsmlake.lsm.cover import Covers, Share
from lsmlake.tables.version import Version


class Fitting(NamedTuple):
    """Messages that fit a version. `messages`: for its buckets. `dropped`: the buckets whose compaction is dropped."""

    messages: Sequence[CommitMessage]
    dropped: tuple[Bucket, ...] = ()


@dataclass
class Fitter:
    """Fits the messages of `request`, which were written for the buckets of `version`. Keeps the files that it has divided for
    further attempts; `written` holds all of them."""

    version: Version
    request: Request
    written: list[NewBucket] = field(default_factory=list)
    _known: dict[tuple, list[NewBucket]] = field(default_factory=dict)

    def fit(self, now: Version) -> Fitting:
        """The messages, for the buckets of a later version."""
        messages, covers = self.request.messages, now.covers()
        unfit = [message for message in messages if not covers.has(message.bucket, _total(message))]
        if unfit:  # the first commit to a partition without files chooses its buckets
            known = now.partitions()
            unfit = [message for message in unfit if message.bucket.partition_key in known]
        if not unfit:
            return Fitting(messages)
        buckets = {message.bucket for message in unfit}
        fit = [message for message in messages if message.bucket not in buckets]
        by_partition: dict[tuple, list[CommitMessage]] = {}
        for message in unfit:
            if message.append is not None:
                by_partition.setdefault(message.bucket.partition_key, []).append(message)
        for partition, some in by_partition.items():
            fit += self._divided(covers, partition, some)
        return Fitting(fit, tuple(message.bucket for message in unfit if message.append is None))

    def _divided(self, covers: Covers, partition: tuple, messages: Sequence[CommitMessage]) -> list[CommitMessage]:
        cover, old = covers.of(partition), [Share(message.bucket.number, _total(message)) for message in messages]
        shares = tuple(dict.fromkeys(share for one in old for share in cover.meeting(one)))
        key = partition, shares
        if key not in self._known:
            given = [
                OldBucket(BucketState(message.bucket, _total(message), message.append.added), message.append.changelog)
                for message in messages
            ]
            self._known[key] = self.request.divide(self.version.meta, self.version.schema, [Division(given, shares)])
            self.written += self._known[key]
        return [
            CommitMessage(one.bucket, BucketEdit(one.bucket, one.total, tuple(one.added), changelog=tuple(one.changelog)))
            for one in self._known[key]
            if one.files
        ]

    def paths(self) -> list[str]:
        """The paths of all files that were written."""
        paths = self.version.meta.paths
        return [path for one in self.written for file in one.files for path in paths.with_index(file)]


def _total(message: CommitMessage) -> int:
    return (message.append or message.compact).total_buckets
