"""Write the shipped files again: ``python -m mansard.estimator.zoo.generate [folder]``.

Without a folder the package's own ``models/`` is renewed. The same catalogue gives
the same bytes, so that a difference in version control is a difference in a network.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mansard.core import files
from mansard.estimator import zoo
from mansard.estimator.zoo.serialise import to_bytes


def regenerate(folder: Path) -> tuple[Path, ...]:
    """Draw every network of the catalogue and write it into ``folder``; returns the paths."""
    files.make_folder(folder)
    return tuple(_write(name, folder) for name in zoo.names())


def _write(name: str, folder: Path) -> Path:
    path = folder / f"{name}.onnx"
    files.write_atomic(path, to_bytes(zoo.build(name)))
    return path


if __name__ == "__main__":
    regenerate(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "models")
