"""Benchmarks: every workload prints ratios of two sides that did the same work in one run on one machine.

    python -m bench NAME [--rows N] [--markdown]
    python -m bench --help

Not part of the wheel. Needs the extra `test`; RESULTS.md in this folder holds the results of dated runs.
"""
