"""Storages with injected faults, and all interleavings of two programs on one storage.

A *call* is one effect on the storage: read, write-begin, write-publish, put_if_absent, list, folders, size, states, delete,
  leftovers, delete_leftover, move, prune.

- `FaultStorage` fails one chosen call, or runs full; `every_fault` tries each call of a program in turn.
- `interleavings` runs two programs in every order of their calls. Each order is replayed from a fresh world: the programs are
  threads of which only one runs at a time, from before one call to before its next. Depth first: follow a schedule to its end,
  then change its last choice that had another way, and replay up to there. Programs of m and n calls have C(m + n, n) orders.

Programs must be deterministic and touch the storage from their own thread only.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice, pairwise
from threading import Semaphore, Thread, current_thread
from typing import NamedTuple

import pyarrow as pa

from lsmlake.errors import LakeError
from lsmlake.storage.storage import Entry, Storage, storage_errors


class Crash(BaseException):
    """The process died here. No handler of library code catches it."""


class Interrupt(KeyboardInterrupt):
    """The user pressed Ctrl-C. The process goes on."""


class HookedStorage(Storage):
    """Passes every call through `around(verb, path)`, a context manager that a subclass gives."""

    def __init__(self, inner: Storage) -> None:
        self.inner = inner

    def around(self, verb, path):
        raise NotImplementedError

    def sink(self, sink: pa.NativeFile) -> pa.NativeFile:
        return sink

    def read(self, path: str) -> pa.NativeFile:
        with self.around("read", path):
            return self.inner.read(path)

    @contextmanager
    def write(self, path: str) -> Iterator[pa.NativeFile]:
        with ExitStack() as unpublished:
            with self.around("write-begin", path):
                sink = unpublished.enter_context(self.inner.write(path))
            yield self.sink(sink)
            with self.around("write-publish", path):
                unpublished.close()

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self.around("put_if_absent", path):
            return self.inner.put_if_absent(path, data)

    def list(self, prefix: str) -> Iterator[Entry]:
        with self.around("list", prefix):
            return iter(tuple(self.inner.list(prefix)))

    def folders(self, prefix: str) -> Iterator[str]:
        with self.around("folders", prefix):
            return iter(tuple(self.inner.folders(prefix)))

    def size(self, path: str) -> int | None:
        with self.around("size", path):
            return self.inner.size(path)

    def states(self, paths: Sequence[str]) -> list[Hashable | None] | None:
        if self.inner.states(()) is None:  # it has none, whatever the paths: no call
            return None
        with self.around("states", paths[0]):
            return self.inner.states(paths)

    def delete(self, path: str) -> None:
        with self.around("delete", path):
            self.inner.delete(path)

    def leftovers(self, prefix: str) -> Iterator[Entry]:
        with self.around("leftovers", prefix):
            return iter(tuple(self.inner.leftovers(prefix)))

    def delete_leftover(self, path: str) -> bool:
        with self.around("delete_leftover", path):
            return self.inner.delete_leftover(path)

    def move(self, source: str, target: str) -> bool:
        with self.around("move", source):
            return self.inner.move(source, target)

    def prune(self, prefix: str) -> None:
        with self.around("prune", prefix):
            self.inner.prune(prefix)

    def place(self, path: str) -> str:
        return self.inner.place(path)

    def uri(self, path: str) -> str:
        return self.inner.uri(path)


class Fault(NamedTuple):
    """What goes wrong: the call of this number (from 1), before or after its effect. mode "crash" raises Crash, and the storage
    refuses every later call, since the dead make none; "error" raises StorageFailed (disk full), once; "interrupt" raises
    Interrupt, once."""

    call: int
    after: bool = False
    mode: str = "crash"


class FaultStorage(HookedStorage):
    """`inner`, with a log of its `calls` (verb, path), at most one fault, and at most `full_after_bytes` written in all."""

    def __init__(self, inner: Storage, *, full_after_bytes: int | None = None) -> None:
        super().__init__(inner)
        self.calls: Sequence[tuple[str, str]] = []
        self.fault: Fault | None = None
        self.dead = False
        self.free_bytes = full_after_bytes

    def fail_at(self, call: int, *, after: bool = False, mode: str = "crash") -> FaultStorage:
        assert mode in ("crash", "error", "interrupt")
        self.fault = Fault(call, after, mode)
        return self

    @contextmanager
    def around(self, verb: str, path: str) -> Iterator[None]:
        if self.dead:
            raise Crash("a dead process calls nothing")
        self.calls.append((verb, path))
        due = self.fault is not None and self.fault.call == len(self.calls)
        if due and not self.fault.after:
            self._strike(verb, path)
        yield
        if due and self.fault.after:
            self._strike(verb, path)

    def _strike(self, verb: str, path: str) -> None:
        if self.fault.mode == "crash":
            self.dead = True
            raise Crash(f"{verb} {path}, {'after' if self.fault.after else 'before'} its effect")
        if self.fault.mode == "interrupt":
            raise Interrupt
        with storage_errors(verb, path):
            raise OSError(errno.ENOSPC, "no space left on device")

    def sink(self, sink: pa.NativeFile) -> pa.NativeFile:
        return sink if self.free_bytes is None else pa.PythonFile(_FillingFile(sink, self.take), mode="w")

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self.around("put_if_absent", path):
            with storage_errors("put_if_absent", path):
                self.take(len(data))
            return self.inner.put_if_absent(path, data)

    def take(self, count: int) -> None:
        """Uses up so much of the disk."""
        if self.free_bytes is not None:
            if count > self.free_bytes:
                raise OSError(errno.ENOSPC, "no space left on device")
            self.free_bytes -= count


class _FillingFile:
    """What pa.PythonFile needs of a Python file, on a disk that fills up."""

    closed = False

    def __init__(self, sink: pa.NativeFile, take: Callable[[int], None]) -> None:
        self._sink, self._take = sink, take

    def write(self, data: bytes) -> int:
        self._take(len(data))
        return self._sink.write(data)

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        self.closed = True


WITHOUT_EFFECT = ("read", "size", "list", "folders", "leftovers")


class Faulted(NamedTuple):
    """A program's end under a fault: the world as it left it, and what it returned or raised."""

    world: Storage
    fault: Fault
    call: tuple[str, str]
    outcome: object


def every_fault(
    run: Callable[[Storage], object], make_world: Callable[[], Storage], mode: str = "crash", *, one_in: int = 1
) -> Iterator[Faulted]:
    """Runs the program once for each of its calls, before and after its effect, each time in a fresh world, and fails that call.

    A failure after a call without an effect would be the same as one before it. A process that dies before a call leaves the same
    as if it had died after the last call with an effect; so of a crash only these, and the one before the first call, are tried.
    Crash, Interrupt and LakeError become the outcome; another exception is a bug and leaves. `one_in` tries one failure in so
    many.
    """
    unharmed = FaultStorage(make_world())
    run(unharmed)
    found = ((n, call, after) for n, call in enumerate(unharmed.calls, start=1) for after in _sides(n, call[0], mode))
    for number, call, after in islice(found, None, None, one_in):
        world = make_world()
        storage = FaultStorage(world).fail_at(number, after=after, mode=mode)
        try:
            outcome = run(storage)
        except (Crash, Interrupt, LakeError) as error:
            outcome = error
        yield Faulted(world, storage.fault, call, outcome)


def _sides(number: int, verb: str, mode: str) -> Iterator[bool]:
    """The failures of one call: whether after its effect."""
    if mode != "crash" or number == 1:
        yield False
    if verb not in WITHOUT_EFFECT and (mode != "crash" or verb != "write-begin"):  # nothing is visible yet
        yield True


class Step(NamedTuple):
    """One call in a schedule: `program` (0 or 1) made it; `runnable` are the programs that could have gone on instead."""

    program: int
    call: tuple[str, str]
    runnable: tuple[int, ...]


class Interleaving(NamedTuple):
    """Both programs' end under one schedule: the world as they left it and what each returned."""

    world: Storage
    results: tuple
    steps: tuple[Step, ...]


def interleavings(
    run_a: Callable[[Storage], object],
    run_b: Callable[[Storage], object],
    make_world: Callable[[], Storage],
    limit: int = 10_000,
    *,
    switches_max: int | None = None,
    one_in: int = 1,
    timeout_s: float = 10,
) -> Iterator[Interleaving]:
    """Every order of the calls of two programs, each from a fresh world, always in the same sequence.

    `switches_max` leaves out orders that take the turn from a program that could go on more often than that: most races
    need few. `one_in` tries one schedule in so many, without those that begin like one left out. An exception of a program
    leaves as AssertionError that tells the schedule; a program that does not reach its next call within `timeout_s` as
    TimeoutError. More than `limit` orders raise OverflowError, lest a test seem to have tried them all; cut with
    `itertools.islice` for a sample.
    """
    prefix: Sequence[Step] | None = ()
    for _ in range(limit):
        done = _replay((run_a, run_b), make_world(), prefix, timeout_s)
        yield done
        prefix = done.steps
        for _ in range(one_in):
            prefix = _next_prefix(prefix, switches_max)
            if prefix is None:
                return
    raise OverflowError(f"more than {limit} interleavings; raise the limit, lower switches_max or make the programs smaller")


def _replay(runs: Sequence[Callable], world: Storage, prefix: Sequence[Step], timeout_s: float) -> Interleaving:
    """Follows the prefix, then lets the running program go on as long as it can."""
    programs, steps = [], []
    try:
        for run in runs:
            programs.append(_Program(run, world, timeout_s))
            programs[-1].await_pause()
        while runnable := tuple(i for i, program in enumerate(programs) if program.call is not None):
            chosen = prefix[len(steps)].program if len(steps) < len(prefix) else _default(steps, runnable)
            step = Step(chosen, programs[chosen].call, runnable)
            if len(steps) < len(prefix) and step[:2] != prefix[len(steps)][:2]:
                raise AssertionError(f"not deterministic: {step} where it was {prefix[len(steps)]}")
            steps.append(step)
            programs[chosen].advance()
    finally:
        for program in programs:
            program.abandon()
    for number, program in enumerate(programs):
        if program.error is not None:
            raise AssertionError(f"program {number} failed under the schedule {_described(steps)}") from program.error
    return Interleaving(world, tuple(program.result for program in programs), tuple(steps))


def _default(steps: Sequence[Step], runnable: tuple[int, ...]) -> int:
    return steps[-1].program if steps and steps[-1].program in runnable else runnable[0]


def _next_prefix(steps: Sequence[Step], switches_max: int | None) -> Sequence[Step] | None:
    """The schedule up to its last choice that has a way not yet tried, that way taken; None when all were."""
    for at in reversed(range(len(steps))):
        step, before = steps[at], steps[:at]
        others = [program for program in step.runnable if program != step.program]
        if others and step.program == _default(before, step.runnable):
            changed = (*before, step._replace(program=others[0], call=_next_call(steps[at:], others[0])))
            if switches_max is None or _switches(changed) <= switches_max:
                return changed
    return None


def _next_call(steps: Sequence[Step], program: int) -> tuple[str, str]:
    """The call that a runnable program stood before: the next it made."""
    return next(step.call for step in steps if step.program == program)


def _switches(steps: Sequence[Step]) -> int:
    return sum(old.program != new.program and old.program in new.runnable for old, new in pairwise(steps))


def _described(steps: Sequence[Step]) -> str:
    return ", ".join(f"{'ab'[step.program]}: {' '.join(step.call)}" for step in steps)


class _Abandoned(BaseException):
    """Nobody schedules this program any more."""


class _Program:
    """A thread that stands before a storage call (`call`) or has ended (`call` is None) whenever the scheduler runs."""

    def __init__(self, run: Callable[[Storage], object], world: Storage, timeout_s: float) -> None:
        self.call: tuple[str, str] | None = None
        self.result: object = None
        self.error: BaseException | None = None
        self._timeout_s, self._abandoned = timeout_s, False
        self._go, self._paused = Semaphore(0), Semaphore(0)
        self._thread = Thread(target=self._main, args=(run, ScheduledStorage(world, self._pause)), daemon=True)
        self._thread.start()

    def advance(self) -> None:
        """Lets the call happen, and all that follows until the next one."""
        self._go.release()
        self.await_pause()

    def await_pause(self) -> None:
        if not self._paused.acquire(timeout=self._timeout_s):
            raise TimeoutError(f"a program made no storage call for {self._timeout_s} s after {self.call}")

    def abandon(self) -> None:
        self._abandoned = True
        self._go.release()

    def _main(self, run: Callable[[Storage], object], storage: Storage) -> None:
        try:
            self.result = run(storage)
        except BaseException as error:
            self.error = error
        self.call = None
        self._paused.release()

    def _pause(self, verb: str, path: str) -> None:
        assert current_thread() is self._thread, "a scheduled program touches its storage from one thread"
        self.call = (verb, path)
        self._paused.release()
        self._go.acquire()
        if self._abandoned:
            raise _Abandoned


class ScheduledStorage(HookedStorage):
    """`inner`, with `pause(verb, path)` before every call."""

    def __init__(self, inner: Storage, pause: Callable[[str, str], None]) -> None:
        super().__init__(inner)
        self._pause = pause

    @contextmanager
    def around(self, verb: str, path: str) -> Iterator[None]:
        self._pause(verb, path)
        yield
