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
import tempfile
from pathlib import Path
from statistics import median

from mansard.analytics.data.ingest import ingest
from mansard.analytics.pages.report.summary import NetworkSummary, summary
from mansard.core.errors import MansardError
from mansard.core.records import Manifest, Measurement
from mansard.estimator import zoo
from mansard.inference.engines import find_engine
from mansard.inference.plan import SEED, NetworkPlan, make_plan
from mansard.inference.preparing import prepare, write
from mansard.measuring.events import Row
from mansard.measuring.kind import Job
from mansard.measuring.measurer import LocalMeasurer

PROFILE = "quick"


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
        if name not in modelled:
            continue
        try:
            row = measure(name, options.batch, newest)
        except MansardError as error:
            print(f"{name:20} left out: {error}")
            continue
        if row.seconds_s:
            ratios.append(show(modelled[name], row.seconds_s))
        else:
            print(f"{name:20} left out: {row.failure or 'every sample was disturbed'}")
    known = [ratio for ratio in ratios if ratio is not None]
    if known:
        print(f"median ratio {median(known):.2f}, least {min(known):.2f}, most {max(known):.2f}")


def show(network: NetworkSummary, seconds_s: tuple[float, ...]) -> float | None:
    """Print one network's line; returns measured over modelled, None where not modelled."""
    middle_s, least_s = median(seconds_s), min(seconds_s)
    ratio = middle_s / network.time_s if network.time_s else None
    modelled = f"{network.time_s * 1e3:10.2f}" if network.time_s else f"{'unknown':>10}"
    shown = f"{ratio:18.2f}" if ratio else ""
    print(f"{network.model:20} {modelled} {middle_s * 1e3:10.2f} {least_s * 1e3:10.2f} {shown}")
    return ratio


def measure(name: str, batch: int, run: Manifest) -> Measurement:
    """A zoo network with random weights, on the CPUs and in the mode of ``run``."""
    with tempfile.TemporaryDirectory(prefix="mansard-") as folder:
        prepared = prepare(name, seed=SEED, batch=batch)
        write(prepared, Path(folder))
        trial = prepared.trial(engine="ort", provider="cpu", with_layers=False)
        versions = find_engine("ort").probe().versions
        mode = run.mode_read_back
        plan = make_plan(NetworkPlan, run.machine, mode, (trial,), versions, None, profile=PROFILE)
        job = Job(plan=plan, missing=(trial.trial_id,), read_back=mode)
        events = LocalMeasurer(files=Path(folder))(job)
        row: Measurement = next(event.row for event in events if isinstance(event, Row))
        return row


if __name__ == "__main__":
    main()
