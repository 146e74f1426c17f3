"""Networks split wherever one tensor alone lives: does the chain compute what the whole does?

    python benchmarks/splits.py > docs/results/splits.md

The nine light models of the onnx package, with random weights. Prints the document of docs/results;
exits 1 where an error is above 1e-6, where one with fusing is above 1e-5, and where a wrong part is
not found.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mansard.inference.preparing import cut_choices, prepare, split, verify

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
MOST, MOST_FUSED = 1e-6, 1e-5
WRONG = 1e-5  # one part's output is larger by this share
HEAD = f"""# Networks split at every cut

`python benchmarks/splits.py`: nine light models of the onnx package with random weights, split at
every *cut* (a single live tensor) or into *stages* (cuts between fused groups,
[layers](../use/layers.md)). Tensors at cuts and outputs are compared with the whole network's in
ONNX Runtime; errors are relative to the largest number of a tensor.

Without fusion every bit is equal. With a wrong part (numbers larger by {WRONG:.0e}) the comparison
fails. With fusion, cuts change the rounding.

| network | cuts | stages | error at all cuts | error of fused stages | error with a wrong part |
|---|---|---|---|---|---|"""


def main() -> None:
    """Print the table."""
    print(HEAD)
    is_right = True
    for path in sorted(LIGHT.glob("light_*.onnx")):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            whole = prepare(path, seed=1)
            parts = split(whole, folder, None)
            error = verify(whole, parts, folder)
            stages = split(whole, folder, [each.number for each in cut_choices(whole, folder)])
            fused = verify(whole, stages, folder, is_optimised=True)
            make_wrong(folder / parts[len(parts) // 2].file)
            wrong = verify(whole, parts, folder)
        print(
            f"| {path.stem.removeprefix('light_')} | {len(parts) - 1} | {len(stages)} "
            f"| {error:.1e} | {fused:.1e} | {wrong:.1e} |"
        )
        is_right &= error <= MOST and fused <= MOST_FUSED and wrong > WRONG / 2
    sys.exit(int(not is_right))


def make_wrong(path: Path) -> None:
    """Let the part in this file give numbers that are larger by ``WRONG``."""
    model = onnx.load(path, load_external_data=False)
    graph, output = model.graph, model.graph.output[0].name
    (writer,) = (node for node in graph.node if output in node.output)
    writer.output[list(writer.output).index(output)] = "right"
    factor = np.array(1 + WRONG, np.float32)
    graph.initializer.append(numpy_helper.from_array(factor, "factor"))
    graph.node.append(helper.make_node("Mul", ["right", "factor"], [output]))
    path.write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
