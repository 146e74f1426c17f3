"""One model, run and scored in a process of its own: what breaks, breaks alone.

    python -m wheel_files.worker MODEL.onnx

Prints one JSON line for each case, its sizes first.
"""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from runtime_truth.comparing import Comparison

    from mansard.inference.preparing.labelling import Labelled
    from wheel_files.cases import Case

TIMEOUT_S = 900
_HERE = Path(__file__).resolve().parents[1]


class Result(msgspec.Struct, frozen=True):
    """One case of one model. Counts are None where ``failure`` says why there are none.

    ``sizes``: what was given; ``nodes``: that ran; ``differing``: one line for each node
    whose figures differ; ``told``: what the estimator asked for because it depends on
    data; ``is_same``: labels changed nothing;
    ``kinds``: what is in the file that is hard, see ``contents``.
    """

    failure: str | None = None
    nodes: int = 0
    our_flop: int = 0
    real_flop: int = 0
    our_bytes: int = 0
    real_bytes: int = 0
    tensor_bytes: int = 0
    free_bytes: dict[str, int] = {}
    differing: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    is_same: bool = True
    kinds: tuple[str, ...] = ()
    sizes: str = ""

    @property
    def flop_error(self) -> float:
        """Ours over the real one, less 1."""
        return _error(self.our_flop, self.real_flop)

    @property
    def bytes_error(self) -> float:
        """Ours over the real ones, less 1."""
        return _error(self.our_bytes, self.real_bytes)


def _error(ours: int, real: int) -> float:
    if not real:
        return math.inf if ours else 0.0
    return ours / real - 1


def run_apart(path: Path) -> list[Result]:
    """All cases of the model at ``path``, worked out in a new process."""
    command = [sys.executable, "-m", "wheel_files.worker", str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=_HERE
        )
    except subprocess.TimeoutExpired:
        return [Result(failure=f"no answer within {TIMEOUT_S} s")]
    found = [
        msgspec.json.decode(line, type=Result)
        for line in done.stdout.splitlines()
        if line.startswith("{")
    ]
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        found.append(Result(failure=f"exit code {done.returncode}: {last[:200]}"))
    return found


def main(path: Path) -> None:
    """Print what each case of the model gives."""
    import onnx

    from mansard.inference.preparing.labelling import label_copy
    from wheel_files.cases import cases_of
    from wheel_files.contents import kinds

    model = onnx.load(path)
    labelled = label_copy(model)
    found = kinds(onnx.load(path, load_external_data=False))
    for case in cases_of(model, f"{path.parents[1].name}/{path.name}"):
        sizes = "; ".join(f"{name}={size}" for name, size in {**case.dims, **case.values}.items())
        result = msgspec.structs.replace(_result(path, labelled, case), sizes=sizes, kinds=found)
        print(msgspec.json.encode(result).decode(), flush=True)


def _result(path: Path, labelled: Labelled, case: Case) -> Result:
    from runtime_truth.asking import Given
    from runtime_truth.comparing import compare
    from runtime_truth.feeds import make_feeds
    from runtime_truth.truth import find_truth

    from mansard.core.errors import MansardError

    try:
        feeds = make_feeds(labelled.model, case.dims, case.values)
        truth = find_truth(labelled, feeds, case.values)
    except Exception as error:  # ONNX Runtime's exceptions have no parent of their own
        return Result(failure=f"ONNX Runtime does not run it: {_first_line(error)}")
    try:
        found = compare(labelled, truth, Given(case.dims, case.values))
    except MansardError as error:
        return Result(failure=f"refused: {_first_line(error)}")
    return Result(
        nodes=len(truth.nodes),
        our_flop=found.ours.flop,
        real_flop=found.real.flop,
        our_bytes=found.ours.moved_bytes,
        real_bytes=found.real.moved_bytes,
        tensor_bytes=found.tensor_bytes,
        free_bytes=dict(found.free_bytes),
        differing=tuple(map(str, found.differences)),
        unchecked=found.unchecked,
        told=tuple(f"{name}={number}" for name, number in found.told.items()),
        is_same=_is_same(path, case, found),
    )


def _is_same(path: Path, case: Case, found: Comparison) -> bool:
    """Whether the file as it is scores like its labelled copy."""
    from mansard.estimator import score

    dims = {
        name.removeprefix("dim "): number
        for name, number in found.told.items()
        if name.startswith("dim ")
    }
    if len(dims) < len(found.told):
        return True  # loops were named by their labels
    scored = score(path, dims={**case.dims, **dims}, values=case.values)
    return found.ours.moved_bytes == sum(row.traffic_bytes or 0 for row in scored.layers)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
