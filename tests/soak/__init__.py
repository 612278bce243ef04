"""A soak: processes of all roles on tables of all kinds, killed and suspended at any moment, with clocks up to two days wrong.

    python -m tests.soak --seconds 1200 --processes 8 --store local

`worker` is one process, `tables` has the tables and their naive model, `processes` starts, kills and suspends, `judge` is the
oracle by replay, `run` puts them together.
"""
