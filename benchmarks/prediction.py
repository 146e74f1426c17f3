"""Modelled time of each zoo network against ONNX Runtime on this machine.

    mansard bench                           # first: the roofs of this machine
    python benchmarks/prediction.py [--runs runs] [--batch 1]

The model lets every fused layer move what enters and leaves it through main memory
and knows no launch cost here, so a runtime that finds tensors in a cache can be
faster, and one that fuses less or whose kernels are far from the peak is slower. The
ratio says how far. Weights are random; the threads are as many as the run's cores.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from mansard.analytics.data.ingest import ingest
from mansard.analytics.report.summary import NetworkSummary, summary
from mansard.estimator import zoo
from mansard.estimator.zoo.weights import with_random_weights

WARM_UP_S, MEASURE_S, N_MIN = 0.5, 3.0, 5
MAX_PARAMETERS = 2**31 // 4 - 1_000_000  # a file of ONNX holds 2 GB, 4 bytes a parameter


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--batch", type=int, default=1)
    options = parser.parse_args()
    dataset = ingest(options.runs)
    newest = max(dataset.manifests, key=lambda manifest: manifest.started_utc)
    modelled = {
        network.model: network
        for network in summary(dataset).networks
        if network.run_id == newest.run_id and network.batch == options.batch
    }
    n_threads = newest.mode_read_back.n_cpus
    print(f"{newest.machine.name}, {n_threads} threads, batch {options.batch}, fp32; times in ms")
    columns = ("modelled", "measured", "fastest", "measured/modelled")
    print(f"{'network':20} " + " ".join(f"{column:>10}" for column in columns))
    ratios = []
    for name in zoo.names():
        if (zoo.entry(name).published_parameters or 0) > MAX_PARAMETERS:
            print(f"{name:20} left out: its weights do not fit in one file")
        elif name in modelled:
            seconds_s = measure(name, options.batch, n_threads)
            ratios.append(show(modelled[name], seconds_s))
    known = [ratio for ratio in ratios if ratio is not None]
    if known:
        print(f"median ratio {median(known):.2f}, least {min(known):.2f}, most {max(known):.2f}")


def show(network: NetworkSummary, seconds_s: list[float]) -> float | None:
    """Print one network's line; returns measured over modelled, None where not modelled."""
    middle_s, least_s = median(seconds_s), min(seconds_s)
    ratio = middle_s / network.time_s if network.time_s else None
    modelled = f"{network.time_s * 1e3:10.2f}" if network.time_s else f"{'unknown':>10}"
    shown = f"{ratio:18.2f}" if ratio else ""
    print(f"{network.model:20} {modelled} {middle_s * 1e3:10.2f} {least_s * 1e3:10.2f} {shown}")
    return ratio


def measure(name: str, batch: int, n_threads: int) -> list[float]:
    """Seconds of each run of a zoo network with random weights, after a warm-up."""
    model = with_random_weights(onnx.load_from_string(zoo.read(name)), seed=1)
    dims = {**dict(zoo.entry(name).dims), "batch": batch}
    feed = {value.name: random_input(value, dims) for value in model.graph.input}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = n_threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    repeat(lambda: session.run(None, feed), WARM_UP_S, 1)
    return repeat(lambda: session.run(None, feed), MEASURE_S, N_MIN)


def repeat(run: Any, duration_s: float, n_min: int) -> list[float]:
    """Seconds of each call, for so long and at least so often."""
    seconds_s: list[float] = []
    end_s = time.perf_counter() + duration_s
    while time.perf_counter() < end_s or len(seconds_s) < n_min:
        start_s = time.perf_counter()
        run()
        seconds_s.append(time.perf_counter() - start_s)
    return seconds_s


def random_input(value: onnx.ValueInfoProto, dims: dict[str, int]) -> Any:
    """Random numbers, or ones for indices and masks, of the input's shape."""
    kind = value.type.tensor_type
    shape = [dims.get(dim.dim_param, dim.dim_value) for dim in kind.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    if dtype == np.float32:
        return np.random.default_rng(5).random(shape, dtype=np.float32)
    return np.ones(shape, dtype)


if __name__ == "__main__":
    main()
