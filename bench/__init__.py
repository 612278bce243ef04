"""Measurements: every workload prints ratios taken in one run, on one machine, of two sides that did the same work.

    python -m bench NAME [--rows N] [--markdown]
    python -m bench --help

Not part of the wheel. Needs the extra `test`; results of dated runs lie in RESULTS.md beside this file.
"""
