"""Compares lsmlake with other systems on the same work, in one run on one machine.

    python -m bench peers --setup                                        # environments, jars and pools of real rows, once
    python -m bench peers [--only NAME,...] [--workload NAME,...] [--rows N,...] [--out FOLDER]
    python -m bench peers --from FOLDER,... [--out FOLDER] [--markdown]  # show, merge and draw what was measured before

Defaults are small, so that everything runs within 40 minutes on two cores. In full, a night:

    python -m bench peers --rows 1_000_000,4_000_000,16_000_000 --batch 100_000 --batches 20 --commits 1000 --rounds 50 \\
        --limit 7200 --minutes 2000 --out FOLDER

Peers whose release for this Spark cannot be had here have stand-ins, an older release on an older Spark, which run when named:

    python -m bench peers --setup --only paimon-older,hudi-bucket-older,hudi-record-older

1. `data` makes every row once, out of a source of rows (`sources`: TPC-H, flights, made ones), as Parquet files that all peers
   read, and what a table must hold in the end.
2. `run` starts `worker` once per (peer, workload, case), in the peer's own environment (`roster`, `setup`), with a time limit.
3. The worker drives the peer through `base.Peer`, the one interface, by a module of `workloads`, and checks what the table
   holds against NumPy's sums: a peer with a wrong result is reported as wrong.
   The first timed batch is left out, because it includes one-time loading and compilation.
4. `report` prints the measurements and their ratios to lsmlake in the same engine; a peer that fails is listed with its error.
   `plots` draws them.

A new peer is a module with a class that implements `base.Peer` and a line in `roster`; a new workload a module in `workloads`
with `cases` (which data it wants) and `run` (what it measures), and a line in `workloads.ALL`.
"""
