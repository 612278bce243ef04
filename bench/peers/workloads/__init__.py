"""What is measured. Each module: `cases` says which data it wants, `run` drives one peer over one case of it."""

from bench.peers.workloads import (
    commit_latency,
    degradation,
    delete_heavy,
    dml,
    engines,
    freshness,
    maintain,
    read_after_upsert,
    stream_upsert,
    wide,
)

ALL = {
    "stream_upsert": stream_upsert,
    "read_after_upsert": read_after_upsert,
    "freshness": freshness,
    "delete_heavy": delete_heavy,
    "maintain": maintain,
    "engines": engines,
    "wide": wide,
    "commit_latency": commit_latency,
    "degradation": degradation,
    "dml": dml,
}
