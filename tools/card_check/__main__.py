"""Checks a card and Mansard on it, without network and without a package to install.

    python -m tools.card_check prepare           where there is a network: what is to be carried
    python tools/card_check run --out FOLDER     on the machine with the card: the table comes last
    python -m tools.card_check report FOLDER     here: HTML report and docs/results/<card>.md

docs/use/card-check.md says how to read the table. Nothing of the card is set.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CARRIED = ROOT / ".card_check/site"


def extend_path() -> None:
    """Make this checkout's rooms importable, here and in programs that are started.

    What was carried stands last, and only where it holds what this Python lacks.
    """
    if not __package__:  # ``python tools/card_check`` puts the folder itself first
        sys.path.pop(0)
    added = [str(ROOT), *(str(path) for path in sorted(ROOT.glob("*/src")))]
    sys.path[:0] = added
    carried = [path.parent.name for path in CARRIED.glob("*/__init__.py")]
    last = [] if all(is_there(name) for name in carried) else [str(CARRIED)]
    sys.path += last
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*added, *given, *last]))


def is_there(package: str) -> bool:
    """Whether this Python has it."""
    try:
        return find_spec(package) is not None
    except ImportError:
        return False


def why_not() -> str:
    """Why nothing can run in this Python; empty where it can."""
    try:
        import_module("msgspec")
    except ImportError as error:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        command = f"python -m tools.card_check prepare --python {version}"
        return f"{error}; where there is a network run '{command}', and carry .card_check/site"
    return ""


if __name__ == "__main__":
    extend_path()
    # What prepares this for another machine needs nothing but pip.
    if sys.argv[1:2] != ["prepare"] and (why := why_not()):
        print(f"card_check: {why}", file=sys.stderr)
        sys.exit(1)
    from tools.card_check.commands import main

    sys.exit(main(sys.argv[1:]))
