"""Metrics for Prometheus: the health of all tables as gauges, and the work of a maintainer in this process as counters.

Names follow the conventions of Prometheus: the prefix `lsmlake_`, base units, `_total` for counters. Every metric has the label
`table`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any, NamedTuple

from lsmlake.api.lake import Lake
from lsmlake.errors import InvalidQuery, Wording
from lsmlake.extras import need
from lsmlake.maintain.work_history import WorkRecord

_KEPT_MS = 15_000  # how long the health of the tables is kept, so that frequent scrapes cost nothing


class _Gauge(NamedTuple):
    """A gauge. `column`: a column of `Lake.health`. `scale`: the unit of the gauge, in units of the column."""

    name: str
    column: str
    about: str
    scale: float = 1


GAUGES = (
    _Gauge("rows", "record_count", "Rows of the newest snapshot."),
    _Gauge("files", "file_count", "Live data files."),
    _Gauge("bytes", "file_size_in_bytes", "Bytes of the live data files."),
    _Gauge("buckets", "bucket_count", "Buckets with files."),
    _Gauge("level0_runs", "level0_runs", "Most sorted runs that wait at level 0 of one bucket."),
    _Gauge("level0_rows", "level0_rows", "Rows at level 0, which a fresh read must merge."),
    _Gauge("level0_bytes", "level0_bytes", "Bytes of the files at level 0."),
    _Gauge("oldest_unmerged_timestamp_seconds", "oldest_unmerged_time", "When the oldest file at level 0 was written.", 1000),
    _Gauge("dead_rows", "dead_rows", "Rows that deletion vectors mark."),
    _Gauge("dead_rows_ratio", "dead_share", "Share of dead rows among all rows."),
    _Gauge("small_files", "small_files", "Files that a compaction could merge with others."),
    _Gauge("snapshots", "snapshot_count", "Retained snapshots."),
    _Gauge("last_commit_timestamp_seconds", "commit_time", "When the newest snapshot was published.", 1000),
    _Gauge("publication_lag_snapshots", "publication_lag", "Snapshots that Iceberg metadata lacks."),
)


class Metrics:
    """The metrics of a lake. Needs the package prometheus_client.

    Raises:
        MissingDependency: prometheus_client is not installed.
    """

    def __init__(self, lake: Lake) -> None:
        self._client: Any = need("prometheus_client", "metrics")
        self._core: Any = need("prometheus_client.core", "metrics")
        self._lake, self._lock = lake, Lock()
        self._read_ms, self._rows = 0, []
        self.registry = self._client.CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        labels = ("table", "kind")
        counter = self._counter
        self._works = counter("maintenance_works", "Works that ended.", (*labels, "outcome"))
        self._read = counter("maintenance_read_bytes", "Bytes of the files that works replaced or removed.", labels)
        self._written = counter("maintenance_written_bytes", "Bytes of the files that works wrote.", labels)
        self._seconds = counter("maintenance_seconds", "Time that works took.", labels)

    def _counter(self, name: str, about: str, labels: tuple[str, ...]) -> Any:
        return self._client.Counter(name, about, labels, namespace="lsmlake", registry=self.registry)

    def count(self, records: Sequence[WorkRecord]) -> None:
        """Adds works to the counters."""
        for record in records:
            self._works.labels(record.table, record.kind, "failed" if record.error else "done").inc()
            self._read.labels(record.table, record.kind).inc(record.bytes_in or 0)
            self._written.labels(record.table, record.kind).inc(record.bytes_out or 0)
            self._seconds.labels(record.table, record.kind).inc(max(0, record.end_ms - (record.start_ms or record.end_ms)) / 1000)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return self._client.generate_latest(self.registry)

    def serve(self, port: int, address: str = "127.0.0.1") -> Callable[[], None]:
        """Serves the metrics at http://ADDRESS:PORT/metrics in a thread; returns a function that ends it. Raises InvalidQuery if
        the port is taken."""
        try:
            server, thread = self._client.start_http_server(port, address, self.registry)
        except OSError as taken:
            cure = Wording("choose another port", command="choose another --metrics-port")
            raise InvalidQuery(
                "metrics cannot be served at this port", where=f"{address}:{port}", found=taken, cure=cure
            ) from None

        def end() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return end

    def collect(self) -> Iterator[Any]:
        """The gauges, for the registry."""
        rows, gauge = self._health(), self._core.GaugeMetricFamily
        up = gauge("lsmlake_table_up", "Whether the table can be read.", labels=["table"])
        problems = gauge("lsmlake_problems", "Thresholds of maintain.alert.* that the table exceeds.", labels=["table"])
        for row in rows:
            up.add_metric([row["table_name"]], float(row["error"] is None))
            problems.add_metric([row["table_name"]], len(row["problems"]))
        yield from (up, problems)
        readable = [row for row in rows if row["error"] is None]
        for each in GAUGES:
            family = gauge(f"lsmlake_{each.name}", each.about, labels=["table"])
            for row in readable:
                if (value := row[each.column]) is not None:
                    family.add_metric([row["table_name"]], value / each.scale)
            yield family
        lag = gauge("lsmlake_consumer_lag_snapshots", "Snapshots that a consumer has not read.", labels=["table", "consumer"])
        for row in readable:
            for consumer, behind in row["consumer_lag"]:
                lag.add_metric([row["table_name"], consumer], behind)
        yield lag

    def _health(self) -> list[dict[str, Any]]:
        with self._lock:
            now_ms = self._lake.env.clock()
            if not self._rows or not 0 <= now_ms - self._read_ms < _KEPT_MS:
                health = self._lake.health()
                times = {name: health[name].cast("int64") for name in ("commit_time", "oldest_unmerged_time")}
                for name, column in times.items():
                    health = health.set_column(health.column_names.index(name), name, column)
                self._rows, self._read_ms = health.to_pylist(), now_ms
            return self._rows
