"""The followers of commits, in their order: a tag is published with its snapshot, and expiry comes last."""

from __future__ import annotations

from lsmlake.iceberg.publication import Publication
from lsmlake.retention.partition_expiry import PartitionExpiry
from lsmlake.retention.snapshot_expiry import SnapshotExpiry
from lsmlake.retention.tag_expiry import AutomaticTags, TagExpiry

FOLLOWERS = (AutomaticTags(), Publication(), PartitionExpiry(), TagExpiry(), SnapshotExpiry())
