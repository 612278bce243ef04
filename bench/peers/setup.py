"""Creates the environments of the peers in a home folder: `venv` and pip, Maven for jars. A second run adds what is missing.

    HOME/env/NAME/           a virtual environment; `ready` in it names what was installed
    HOME/jars/ARTIFACT-V/    its jars; `pom.xml` is what Maven was given
    HOME/pools/NAME.parquet  real rows that `sources` takes from
    HOME/data/, HOME/work/   input rows, and the tables while a worker runs
A failure is written to a file `error` in its folder, and the run reports it for every peer that needs that folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import venv
from collections.abc import Iterable
from pathlib import Path

from bench.peers.roster import ENVIRONMENTS, POOLS, POOLS_SCALE, Entry, Environment, Jars

ROOT = Path(__file__).parents[2]
"""Of the repository."""
HOME = Path.home() / ".cache" / "lsmlake-bench"
"""Where all is, unless another folder is named."""
_ERROR_CHARS = 2_000
_COLOURS = re.compile("\x1b\\[[0-9;]*m")
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId><artifactId>peers</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
{dependencies}  </dependencies>
</project>
"""
_DEPENDENCY = """    <dependency>
      <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
    </dependency>
"""


class NotReady(Exception):
    """What a peer needs is not there; says what to do, or why it could not be had."""


def setup(home: Path, peers: Iterable[Entry]) -> dict[str, str]:
    """Make what the peers need, and the pools. Returns what failed, by environment, jar or pools, and why."""
    peers = list(peers)
    used = {peer.environment for peer in peers}
    environments = (POOLS, *(one for one in ENVIRONMENTS if one.name in used))
    failed = provide(home, environments, dict.fromkeys(peer.jars for peer in peers if peer.jars))
    _once(home / "pools", f"{_told(POOLS)}\nscale {POOLS_SCALE}", lambda folder: _make_pools(home, folder), failed)
    return failed


def provide(home: Path, environments: Iterable[Environment], jars: Iterable[Jars]) -> dict[str, str]:
    """Make environments and get jars. Returns what failed, by environment or jar, and why."""
    failed: dict[str, str] = {}
    for one in environments:
        _once(home / "env" / one.name, _told(one), lambda folder, one=one: _make_environment(folder, one), failed)
    for one in jars:
        _once(_jar_folder(home, one), one.coordinates, lambda folder, one=one: _copy_jars(folder, one), failed)
    return failed


def python_of(home: Path, environment: str) -> Path:
    folder = home / "env" / environment
    _need(folder)
    return folder / "bin" / "python"


def pool_of(home: Path, name: str) -> Path:
    folder = home / "pools"
    _need(folder)
    return folder / f"{name}.parquet"


def jars_of(home: Path, jars: Jars | None) -> list[Path]:
    """The one that is named first."""
    if jars is None:
        return []
    folder = _jar_folder(home, jars)
    _need(folder)
    return sorted(folder.glob("*.jar"), key=lambda jar: jar.stem != folder.name)


def _jar_folder(home: Path, jars: Jars) -> Path:
    _, artifact, version = jars.coordinates.split(":")
    return home / "jars" / f"{artifact}-{version}"


def _told(environment: Environment) -> str:
    return "\n".join([*environment.requirements, *(["lsmlake"] if environment.ours else [])])


def _need(folder: Path) -> None:
    if (folder / "ready").exists():
        return
    error = folder / "error"
    raise NotReady(error.read_text() if error.exists() else f"{folder.name} is not set up: python -m bench peers --setup")


def _once(folder: Path, what: str, make, failed: dict[str, str]) -> None:
    """`make` the folder unless it is ready with the same `what`."""
    ready, error = folder / "ready", folder / "error"
    if ready.exists() and ready.read_text() == what:
        print(f"{folder.name}: ready")
        return
    print(f"{folder.name}: making", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        make(folder)
    except NotReady as reason:
        error.write_text(str(reason))
        failed[folder.name] = str(reason)
        print(f"{folder.name}: {reason}")
    else:
        ready.write_text(what)


def _make_environment(folder: Path, environment: Environment) -> None:
    venv.create(folder, with_pip=True)
    with tempfile.TemporaryDirectory() as copy:
        ours = [_copied(Path(copy))] if environment.ours else []
        _call([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *environment.requirements, *ours])


def _make_pools(home: Path, folder: Path) -> None:
    environment = home / "env" / POOLS.name
    _need(environment)
    _call([environment / "bin" / "python", "-m", "bench.peers.pools", folder, POOLS_SCALE], PYTHONPATH=str(ROOT))


def _copied(folder: Path) -> Path:
    """What pip builds lsmlake of, copied, since the build leaves files behind. Installed for what it depends on: workers
    import this repository's own code, so a change needs no new setup."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "lsmlake", folder / "lsmlake", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def _copy_jars(folder: Path, jars: Jars) -> None:
    group, artifact, version = jars.coordinates.split(":")
    wanted = (_DEPENDENCY.format(group=group, artifact=one, version=version) for one in (artifact, *jars.beside))
    (folder / "pom.xml").write_text(_POM.format(dependencies="".join(wanted)))
    groups = "" if jars.groups is None else ",".join(jars.groups or (group,))
    chosen = [f"-DincludeGroupIds={groups}", f"-DexcludeArtifactIds={','.join(jars.without)}", "-DincludeScope=runtime"]
    goal = ["dependency:copy-dependencies", *chosen]
    _call(["mvn", "-q", "-B", "-U", "-f", folder / "pom.xml", *goal, f"-DoutputDirectory={folder}"])
    if not (folder / f"{artifact}-{version}.jar").exists():
        raise NotReady(f"Maven copied no {artifact}-{version}.jar")


def _call(command: list[object], **variables: str) -> None:
    """`variables`: of the environment, beside those there are."""
    environment = {**os.environ, **variables}
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=environment)
    except FileNotFoundError as error:
        raise NotReady(f"{command[0]} is not there: {error}") from error
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        first = next((line for line in said if "ERROR" in line), said[-1] if said else "nothing said")
        reason = _COLOURS.sub("", first).removeprefix("[ERROR] ")[:_ERROR_CHARS]
        raise NotReady(f"{Path(str(command[0])).name} failed ({done.returncode}): {reason}")
