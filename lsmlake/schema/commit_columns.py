"""The names of the columns that tell the commit of a change and its place in it."""

COMMIT_SNAPSHOT, COMMIT_TIME, CHANGE_ORDINAL = COMMIT_COLUMNS = "_commit_snapshot_id", "_commit_time", "_change_ordinal"
