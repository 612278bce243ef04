"""What an error that the command line shows must not contain: it names commands and flags, not calls of Python."""

from __future__ import annotations

import re

PYTHON_CALL = re.compile(r"\w\((?!s\b|p\b|\d)|=True|=False|\blsmlake\.|\b[a-z]+_[a-z]+=")
