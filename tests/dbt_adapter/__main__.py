"""`python -m tests.dbt_adapter [options of pytest]`: the tests of the dbt adapter, in an environment with the extra `dbt-test`.

The fixtures of the other tests, which need the extra `test`, are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if __name__ == "__main__":
    folder = Path(__file__).parent
    sys.exit(pytest.main([f"--confcutdir={folder}", "-p", "no:cacheprovider", str(folder), *sys.argv[1:]]))
