"""`lsmlake`, the console script. Ctrl-C ends it in one line, also while Python loads modules."""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib.machinery import ModuleSpec

from lsmlake.cli.commands import ON_SPARK
from lsmlake.undo import behind

_FAILED = 1
_INTERRUPTED = 130
"""The exit code after KeyboardInterrupt, the same as Typer's."""


class _WithoutPandas:
    """PyArrow imports pandas, if it is installed, when it makes its first array of Python values. That takes half a second, and
    no command without Spark uses it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("this process does without pandas", name=name)
        return None


_OBJECTS = 50_000
"""The threshold of garbage collection while modules load: collections find nothing then, and take a tenth of the start."""


def run() -> None:
    try:
        gc.set_threshold(_OBJECTS)
        from lsmlake.cli.app import app

        if not ON_SPARK.intersection(sys.argv):
            sys.meta_path.insert(0, _WithoutPandas)
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no error
        app(prog_name="lsmlake")
    except BaseException as error:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is left to undo, and Python would print where it ends
        end = behind(error) or error
        if isinstance(end, OSError):  # of the texts that Typer prints; those of commands end in `cli.guard`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the last flush would fail again
            print(f"error: cannot write the result: {end.strerror or end}", file=sys.stderr)
            raise SystemExit(_FAILED) from None
        if not isinstance(end, KeyboardInterrupt) and getattr(end, "code", None) != _INTERRUPTED:
            raise
        print("interrupted", file=sys.stderr)
        raise SystemExit(_INTERRUPTED) from None
