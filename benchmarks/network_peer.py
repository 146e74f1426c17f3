"""Networks as Mansard measures them against a plain loop of ONNX Runtime, alternating in one run.

    python benchmarks/network_peer.py [--rounds 6] [--threads 1] [NETWORK…]

The plain loop is ``session.run`` on arrays in a plain Python loop; the other side is what a trial's
samples are taken from. Both have a session of their own and take turns of a few calls. Both load
six times, for where the weights of a session come to lie in memory changes its time by up to
10 %. On both sides samples in which threads waited for a CPU are left out: other programs may be
running. Then come the sum of the layers' times in the profile over the loop, the profiled calls
over the loop, and how many samples counted. Layers may sum to less than the loop, which has the
time between nodes too, and to more, as profiling takes some microseconds for each of them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any

import onnxruntime

from mansard.inference.calls import CallSource, ThreadTimes, undisturbed, warm_up
from mansard.inference.engines import find_engine
from mansard.inference.inputs import make_inputs
from mansard.inference.plan import SEED, NetworkTrial
from mansard.inference.preparing import prepare, write
from mansard.measuring.protocol import PROTOCOLS
from mansard.measuring.raw_samples import rejection

NETWORKS = (
    "alexnet",
    "bert_base",
    "efficientnet_b0",
    "googlenet",
    "lstm",
    "mobilenet_v2",
    "resnet18",
    "shufflenet_v2_x1_0",
    "squeezenet1_1",
    "yolov8n",
)
PROTOCOL = PROTOCOLS["full"]
BLOCK_S, N_LOADS, N_MIN, N_PROFILED, LONGEST_S = 0.05, 6, 30, 20, 120.0


def main() -> None:
    """Print a line for each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--rounds", type=int, default=6, help="turns after each loading")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    columns = f"{'loop ms':>9} {'ours ms':>9} {'ratio':>7} {'layers/loop':>12} {'profiled':>9}"
    print(f"{'network':20} {columns} samples")
    found = []
    for name in options.networks:
        with tempfile.TemporaryDirectory(prefix="mansard-") as folder:
            prepared = prepare(name, seed=SEED)
            write(prepared, Path(folder))
            trial = prepared.trial(engine="ort", provider="cpu", n_threads=options.threads)
            found.append(compare(trial, Path(folder), options.rounds))
    ratios = [ratio for ratio in found if ratio is not None]
    spread = f"{min(ratios):.4f} to {max(ratios):.4f}, median {median(ratios):.4f}"
    print(f"{len(ratios)} of {len(found)} networks: ratios from {spread}")


def compare(trial: NetworkTrial, folder: Path, n_rounds: int) -> float | None:
    """Print one network's line; returns the ratio of our time to the plain loop's.

    None where other programs leave too few samples alone.
    """
    inputs = make_inputs(trial, folder, SEED)
    found: tuple[list[float], list[float]] = ([], [])
    end_s = time.monotonic() + LONGEST_S
    number = 0
    while number < N_LOADS or min(map(len, found)) < N_MIN:
        if time.monotonic() > end_s:
            print(f"{trial.model:20} left out: nearly every sample was disturbed")
            return None
        for side, samples_s in take_turns(trial, folder, inputs, number % 2, n_rounds):
            found[side].extend(samples_s)
        number += 1
    loop_s, our_s = median(found[0]), median(found[1])
    profiles = [layer_times(trial, folder, inputs) for _ in range(N_LOADS)]
    layers_s, profiled_s = (median(times) for times in zip(*profiles, strict=True))
    shares = f"{layers_s / our_s:12.3f} {profiled_s / our_s:9.3f}"
    times = f"{loop_s * 1e3:9.3f} {our_s * 1e3:9.3f} {our_s / loop_s:7.4f}"
    print(f"{trial.model:20} {times} {shares} {len(found[0]):5} {len(found[1]):5}", flush=True)
    return our_s / loop_s


def take_turns(
    trial: NetworkTrial, folder: Path, inputs: Mapping[str, Any], first: int, n_rounds: int
) -> Iterator[tuple[int, list[float]]]:
    """Load both sides, ``first`` before the other; then samples of each in turn: 0 is plain."""
    n_threads = trial.n_threads or 1
    with ExitStack() as stack:
        calls: dict[int, Callable[[], None]] = {}
        for side in (first, 1 - first):
            if side == 0:
                calls[0] = plain_loop(folder / trial.file, inputs, n_threads)
            else:
                network = find_engine(trial.engine).load(trial, folder, inputs, n_threads)
                stack.callback(network.close)
                calls[1] = network.call
        call_s = max(warm_up(call, PROTOCOL) for call in calls.values())
        n_calls = max(1, round(PROTOCOL.sample_s / call_s))
        n_samples = max(1, round(BLOCK_S / (n_calls * call_s)))
        waits = stack.enter_context(ThreadTimes())
        for number in range(n_rounds):
            for side in (0, 1) if number % 2 else (1, 0):
                raw = CallSource(calls[side], waits).take(n_samples + 1, n_calls, lambda: False)
                yield (
                    side,
                    [
                        sample.duration_s / n_calls
                        for sample in raw[1:]
                        if rejection(sample, PROTOCOL.cpu_share_min) is None
                    ],
                )


def plain_loop(path: Path, inputs: Mapping[str, Any], n_threads: int) -> Callable[[], None]:
    """One plain call of ``session.run``."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = n_threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)


def layer_times(
    trial: NetworkTrial, folder: Path, inputs: Mapping[str, Any]
) -> tuple[float, float]:
    """The sum of the layers' times, and the time of a call with the profile on."""
    network = find_engine(trial.engine).load(trial, folder, inputs, trial.n_threads or 1)
    with closing(network), ThreadTimes() as waits:
        network.start_profiling()
        raw = CallSource(network.call, waits).take(N_PROFILED, 1, lambda: False)
        kept = undisturbed(raw, PROTOCOL.cpu_share_min)
        layers, _ = network.end_profiling(kept)
    profiled_s = median(one.duration_s for one, is_kept in zip(raw, kept, strict=True) if is_kept)
    return sum(median(layer.seconds_s) for layer in layers), profiled_s


if __name__ == "__main__":
    main()
