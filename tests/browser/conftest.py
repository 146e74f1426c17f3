from __future__ import annotations

import sys
from pathlib import Path

# The factory is a module beside the tests, and importlib mode puts no folder on the path.
ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
