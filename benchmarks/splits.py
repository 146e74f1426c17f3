"""Networks split wherever one tensor alone lives: does the chain compute what the whole does?

    python benchmarks/splits.py > docs/results/splits.md

The nine light models of the onnx package, with random weights. Prints the document of docs/results;
exits 1 where an error is above 1e-6.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import onnx

from mansard.inference.preparing import cut_choices, prepare, split, verify

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
MOST = 1e-6
HEAD = """# Networks split at every cut

`python benchmarks/splits.py`: the nine light models of the onnx package, with random weights. Each
is split wherever one tensor alone lives (*cuts*; *stages* are cut where no fused group is divided,
[layers](../layers.md)). All parts run in turn on ONNX Runtime, without fusing; each tensor at a cut
and the output are held against those of the whole network. Errors are relative to the largest
number of a tensor.

| network | cuts | between stages | largest error |
|---|---|---|---|"""


def main() -> None:
    """Print the table."""
    print(HEAD)
    worst = 0.0
    for path in sorted(LIGHT.glob("light_*.onnx")):
        with tempfile.TemporaryDirectory() as folder:
            whole = prepare(path, seed=1)
            parts = split(whole, Path(folder), None)
            error = verify(whole, parts, Path(folder))
            n_stages = len(cut_choices(whole, Path(folder)))
        print(
            f"| {path.stem.removeprefix('light_')} | {len(parts) - 1} | {n_stages} | {error:.1e} |"
        )
        worst = max(worst, error)
    sys.exit(int(not worst <= MOST))


if __name__ == "__main__":
    main()
