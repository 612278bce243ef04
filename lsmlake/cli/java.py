"""Checks for a Java that Spark can run on, before Spark starts, because Spark's own error is hard to read.

Finds the Java that PySpark would start: `$JAVA_HOME/bin/java` if JAVA_HOME is set, else the first `java` on the PATH.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping

from lsmlake.errors import MissingDependency

LEAST_VERSION = 17
_WHAT = f"Spark needs Java {LEAST_VERSION} or newer"
_INSTALL = "run `apt-get install openjdk-17-jre-headless` on Debian or Ubuntu, `brew install openjdk@17` on macOS"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')  # up to Java 8: "1.8.0_292"
_PATIENCE_SECONDS = 60


def require_java(environ: Mapping[str, str] = os.environ) -> str:
    """The path of a Java that is new enough. Raises MissingDependency."""
    home = environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java") if home else shutil.which("java", path=environ.get("PATH", os.defpath))
    if java is None:
        problem = f"JAVA_HOME={home}, which has no bin/java" if home else "no java on the PATH"
        raise MissingDependency(_WHAT, found=problem, cure=f"correct or unset JAVA_HOME, or {_INSTALL}" if home else _INSTALL)
    version = _version(java)
    if version is None or version < LEAST_VERSION:
        problem = f"{java}, which does not run" if version is None else f"Java {version} in {java}"
        raise MissingDependency(_WHAT, found=problem, cure=_INSTALL)
    return java


def _version(java: str) -> int | None:
    """The major version; None if `java` does not run, as the placeholder on a Mac without Java."""
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", timeout=_PATIENCE_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(printed.stderr + printed.stdout)
    return int(match[1]) if match and printed.returncode == 0 else None
