"""How many files a reader opens, and how deep the calls are, to follow one verb. Counts, which depend on no machine.

A limit is what the way has today or what was asked, whichever is more. A way that becomes longer needs a reason, and a new limit
here.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, tempfile, threading
import pyarrow as pa
import lsmlake

root = os.path.dirname(lsmlake.__file__) + os.sep


def walked(verb):
    files, deepest, lock = set(), [0], threading.Lock()

    def look(frame, event, arg):
        if event != "call" or not frame.f_code.co_filename.startswith(root):
            return
        depth, caller = 0, frame
        while caller:
            depth += caller.f_code.co_filename.startswith(root)
            caller = caller.f_back
        with lock:
            files.add(frame.f_code.co_filename)
            deepest[0] = max(deepest[0], depth)

    threading.setprofile(look)
    sys.setprofile(look)
    verb()
    sys.setprofile(None)
    threading.setprofile(None)
    return len(files), deepest[0]


lake = lsmlake.connect(tempfile.mkdtemp())
lake.create_database("s")
table = lake.create_table("s.o", "id BIGINT NOT NULL, v INT, s STRING", primary_key=["id"], options={"bucket": 1})
rows = pa.table({"id": pa.array(range(2000), pa.int64()), "v": pa.array([1] * 2000, pa.int32()), "s": ["a"] * 2000})
table.upsert(rows)
table.upsert(rows.slice(0, 10))
matched = "WHEN MATCHED THEN UPDATE SET v = x.v + 1 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (x.id, x.v)"
merge = f"MERGE INTO s.o t USING news x ON t.id = x.id {matched}"
verbs = {
    "upsert": lambda: table.upsert(rows.slice(5, 10), compact=False),
    "compact": table.compact,
    "upsert with compaction": lambda: table.upsert(rows.slice(100, 10)),
    "scan": lambda: table.scan(where="v = 1 and id > 100", columns=["id"]).to_arrow(),
    "get": lambda: table.get({"id": 7}),
    "warm": lambda: lake.sql(merge, tables={"news": rows.slice(0, 3)}),
    "MERGE": lambda: lake.sql(merge, tables={"news": rows.slice(0, 3)}),
    "UPDATE": lambda: lake.sql("UPDATE s.o SET v = v + 1 WHERE id = 3"),
    "DELETE": lambda: lake.sql("DELETE FROM s.o WHERE id = 4"),
    "INSERT": lambda: lake.sql("INSERT INTO s.o VALUES (5, 2, 'c')"),
    "SELECT": lambda: lake.sql("SELECT v, count(*) FROM s.o WHERE id > 7 GROUP BY v").fetchall(),
}
for name, verb in verbs.items():
    print(name, *walked(verb), sep=",")
"""

LIMITS = {
    "upsert": (48, 16),
    "compact": (36, 16),
    "upsert with compaction": (52, 16),
    "scan": (41, 16),
    "get": (32, 16),
    "MERGE": (95, 24),
    "UPDATE": (95, 24),
    "DELETE": (95, 24),
    "INSERT": (86, 22),
    "SELECT": (70, 24),
}
"""Verb -> the most files that it passes through, and the most frames of the library on its stack."""


@pytest.fixture(scope="module")
def ways() -> dict[str, tuple[int, int]]:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    lines = (line.split(",") for line in done.stdout.splitlines())
    return {name: (int(files), int(depth)) for name, files, depth in lines}


@pytest.mark.parametrize("verb", LIMITS)
def test_a_verb_takes_a_short_way(ways: dict[str, tuple[int, int]], verb: str):
    files, depth = ways[verb]
    assert files <= LIMITS[verb][0] and depth <= LIMITS[verb][1], f"{verb}: {files} files, {depth} frames"
