"""Run a command beside an engine that answers without an end; its exit status is this one's.

    python flooded.py END_OF_PATH NAME_OF_FLOOD COMMAND...

In COMMAND the word ENGINE stands for the engine's address. Floods are those of the tests.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.containers.flooding_engine import FLOODS, flooding_engine


def main() -> int:
    """Run it; the engine ends with it."""
    path, flood, *command = sys.argv[1:]
    with (
        tempfile.TemporaryDirectory(prefix="mansard-") as folder,
        flooding_engine(Path(folder), path, FLOODS[flood]) as (address, _),
    ):
        words = [address if word == "ENGINE" else word for word in command]
        return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
