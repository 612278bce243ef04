"""`python -m bench.peers`, the same as `python -m bench peers`."""

from __future__ import annotations

import sys

from bench.peers.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
