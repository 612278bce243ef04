"""A standalone Spark cluster on loopback, and drivers on it whose executors, tasks, shuffle files and own processes are lost.

    python -m tests.cluster --minutes 5

`machines` is the master and its workers, `gates` stops tasks and drivers at chosen storage calls, `events` reads what Spark says
about its tasks, `driver` is a driver program with one function for each kind of loss.
"""
