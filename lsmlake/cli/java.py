"""Is there a Java that Spark can run on? Asked before anything else, since Spark's own answer is hard to read.

The same Java that PySpark would start: `$JAVA_HOME/bin/java` if JAVA_HOME is set, else the first `java` on the PATH.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping

from lsmlake.errors import MissingDependency

LEAST_VERSION = 17
_INSTALL = (
    f"install Java {LEAST_VERSION} or newer: `apt-get install openjdk-17-jre-headless` on Debian and Ubuntu, "
    "`brew install openjdk@17` on macOS"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')  # up to 8 it said "1.8.0_292"
_PATIENCE_SECONDS = 60


def require_java(environ: Mapping[str, str] = os.environ) -> str:
    """The path of a Java that is new enough. Raises MissingDependency."""
    home = environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java") if home else shutil.which("java", path=environ.get("PATH", os.defpath))
    if java is None:
        where, cure = (f"JAVA_HOME={home}", f"correct or unset JAVA_HOME, or {_INSTALL}") if home else ("", _INSTALL)
        raise MissingDependency("Spark needs Java and there is none", where=where, cure=cure)
    version = _version(java)
    if version is None or version < LEAST_VERSION:
        found = "a java that does not run" if version is None else f"Java {version}"
        raise MissingDependency("Spark needs a newer Java", where=java, expected=LEAST_VERSION, found=found, cure=_INSTALL)
    return java


def _version(java: str) -> int | None:
    """Its major version; `None` if it does not tell, as the placeholder on a Mac without Java."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", timeout=_PATIENCE_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(told.stderr + told.stdout)
    return int(found[1]) if found and told.returncode == 0 else None
