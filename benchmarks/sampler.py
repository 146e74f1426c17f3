"""What sampling costs, and how right the energy is that comes of it.

    PYTHONPATH=. python benchmarks/sampler.py [--seconds S] [--stretches N] [--hertz F] [--json]

Cost: an INA3221 of three rails (files of numbers in a temporary folder, read as a board's
are) is sampled at F per second; the sampler's thread is the only thing that runs, so that
the CPU time of the process is its cost. The same with files opened anew for each reading,
and a thread that wakes up as often and reads nothing. Kinds take turns over N stretches;
shown are the median and the least, which differ where other work shares the machine's caches.
On a board the kernel adds the transfer over I2C, about 0.55 ms for each of six registers,
most of it waiting.

Error: traces of power whose energy is known exactly are played at the clock's pace, sampled
at F per second, and integrated. Target: 0.1 % of the energy, 2 % of one core; the exit code
is 1 where one is missed. Steps within 1 ms have no target: samples locate a step only to half
a period; a kernel that runs on has none in its window.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from mansard.core.records import PowerSample
from mansard.device.meters.ina import RailMeter, open_hwmon
from mansard.device.meters.meter import Meters
from mansard.device.meters.readings import trapezoid
from mansard.device.meters.sampler import CPU_SHARE, Sampler
from tests.device.replay_meters import ReplayMeter, TraceMeter

MOST_ERROR = 0.001
KEPT, REOPENED = "files kept open", "files opened for each reading"
STEPS = "steps every 0.37 s (no target)"
WAKING = "waking up, reading nothing"
Trace = list[tuple[float, float]]


def main() -> int:
    """Print cost and error; 1 where one of them misses its target."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--stretches", type=int, default=5)
    parser.add_argument("--hertz", type=float, default=100.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    costs = measure_costs(options.seconds, 1 / options.hertz, options.stretches)
    errors = measure_errors(options.seconds, 1 / options.hertz)
    if options.json:
        print(json.dumps({"cpu_share": costs, "relative_error": errors}))
    else:
        show(costs, errors, options.hertz)
    worst = max(abs(error) for name, error in errors.items() if name != STEPS)
    return int(median(costs[KEPT]) > CPU_SHARE or worst > MOST_ERROR)


def show(costs: dict[str, list[float]], errors: dict[str, float], hertz: float) -> None:
    """The figures, one a line."""
    print(f"share of one core at {hertz:g} Hz, three rails (target {CPU_SHARE:.0%}): median, least")
    for name, shares in costs.items():
        print(f"  {name:36} {median(shares):.2%} {min(shares):.2%}")
    print(f"error of the energy (target {MOST_ERROR:.1%})")
    for name, error in errors.items():
        print(f"  {name:36} {error:+.4%}")


def measure_costs(seconds: float, period_s: float, n_stretches: int) -> dict[str, list[float]]:
    """Shares of one core, by how the files are read; the kinds take turns."""
    with tempfile.TemporaryDirectory() as folder:
        write_chip(Path(folder))
        kept, _ = open_hwmon(Path(folder))
        if kept is None:
            sys.exit("the made-up chip was not found")
        kinds: dict[str, Any] = {WAKING: ReplayMeter([()] * 1_000_000), KEPT: kept}
        kinds[REOPENED] = Reopening(kept)
        costs: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(n_stretches):
            for name, meter in kinds.items():
                costs[name].append(cpu_share(Meters((meter,), {}), seconds, period_s))
    return costs


def write_chip(root: Path) -> None:
    """A chip's folder as the kernel shows it."""
    folder = root / "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon3"
    folder.mkdir(parents=True)
    for number, label in enumerate(("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"), 1):
        for name, value in (("label", label), ("input", 5000), ("enable", 1)):
            (folder / f"in{number}_{name}").write_text(f"{value}\n")
        (folder / f"curr{number}_input").write_text(f"{number * 400}\n")
        (folder / f"shunt{number}_resistor").write_text("5000\n")


class Reopening:
    """A meter whose files are closed after every reading."""

    def __init__(self, meter: RailMeter) -> None:
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._meter, name)

    def read(self) -> tuple[PowerSample, ...]:
        samples = self._meter.read()
        for channel in self._meter._channels.values():
            for node in channel.nodes:
                node.close()
        return samples


def cpu_share(meters: Meters, seconds: float, period_s: float) -> float:
    """CPU time of this process over wall time while the sampler runs and nothing else does."""
    with Sampler(meters, period_s=period_s):
        time.sleep(0.2)
        before_s, start_s = cpu_s(), time.monotonic()
        time.sleep(seconds)
        return (cpu_s() - before_s) / (time.monotonic() - start_s)


def cpu_s() -> float:
    """User and system time of all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure_errors(seconds: float, period_s: float) -> dict[str, float]:
    """Relative error of the energy of the whole stretch, for each trace."""
    traces = make_traces(seconds + 2)
    meter = TraceMeter(traces)
    with Sampler(Meters((meter,), {}), period_s=period_s) as sampler:
        time.sleep(0.2)
        start_s = time.monotonic()
        time.sleep(seconds)
        end_s = time.monotonic()
    errors = {}
    for rail in sampler.window(start_s, end_s, n_changed_min=1).rails:
        true_j = exact_j(traces[rail.rail], start_s - meter.start_s, end_s - meter.start_s)
        errors[rail.rail] = math.nan if rail.energy_j is None else rail.energy_j / true_j - 1
    return errors


def make_traces(length_s: float) -> dict[str, Trace]:
    """Power over time, straight between points: its energy is a sum of trapezia."""
    millisecond = [i / 1000 for i in range(round(length_s * 1000) + 1)]
    ramps = [(i * 0.25, 12.0 if i % 2 else 5.0) for i in range(math.ceil(length_s * 4) + 1)]
    sine = [(s, 10 + 4 * math.sin(2 * math.pi * 1.7 * s)) for s in millisecond]
    steps = [(s, 22.0 if int(s / 0.37) % 2 else 6.0) for s in millisecond]
    return {"ramps of 0.25 s": ramps, "sine of 1.7 Hz": sine, STEPS: steps}


def exact_j(trace: Trace, start_s: float, end_s: float) -> float:
    """The trace's own energy between two of its times."""
    first = max(i for i, (time_s, _) in enumerate(trace) if time_s <= start_s)
    last = min(i for i, (time_s, _) in enumerate(trace) if time_s >= end_s)
    return trapezoid(trace[first : last + 1], start_s, end_s)


if __name__ == "__main__":
    sys.exit(main())
