"""Energies of decode of others' runs, by windows over their raw samples.

    python benchmarks/llm_energies.py [FOLDER]

FOLDER holds recorded runs of llama.cpp on an AGX Orin 64GB (github.com/jbecirovski/
jetson-llm-maxperf, campaign of 2026-08-12): samples of the rails at 10 Hz, the times at which the
command began and ended, and the energy that the author computed. The decode window ends ``tail_s``
before the command does, as the author defines it, and lasts as long as llama.cpp says.

Four energies of the same window are compared: Mansard's, through ``mansard data import`` of a table
of windows beside the samples; the author's; a trapezoid with NumPy over the author's column of the
total; and the mean of the samples inside the window times its length, as a sceptic would write it.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mansard.analytics.data.published.importing import import_files
from mansard.analytics.data.published.origin import PublishedOrigin

DEFAULT = Path(__file__).resolve().parents[2] / "shared/data/llm/jbecirovski+jetson-llm-maxperf"
ORIGIN = PublishedOrigin(
    device="Jetson AGX Orin 64GB", processor="gpu", citation="jbecirovski, jetson-llm-maxperf, 2026"
)


class DecodeEnergy(NamedTuple):
    """Joules of one decode by four ways."""

    name: str
    windows_j: float
    author_j: float
    trapezoid_j: float
    mean_j: float
    n_tokens: int


def decode_energies(folder: Path) -> Iterator[DecodeEnergy]:
    """Those of every run in ``folder``, by name."""
    for path in sorted(folder.glob("*__energy.json")):
        stem = path.name.removesuffix("__energy.json")
        said = json.loads(path.read_text())
        markers = dict(
            line.split() for line in (folder / f"{stem}__markers.txt").read_text().splitlines()
        )
        end_s = float(markers["cmd_end"]) - said["tail_s"]
        start_s = end_s - said["decode_s"]
        power = folder / f"{stem}__power.csv"
        yield DecodeEnergy(
            name=stem,
            windows_j=_by_windows(power, start_s, end_s),
            author_j=said["energy_decode_j"],
            trapezoid_j=_by_trapezoid(power, start_s, end_s),
            mean_j=_by_mean(power, start_s, end_s),
            n_tokens=said["decoded_tokens"],
        )


def _by_windows(power: Path, start_s: float, end_s: float) -> float:
    """What ``mansard data import windows.csv power.csv`` stores."""
    with tempfile.TemporaryDirectory() as folder:
        windows = Path(folder) / "windows.csv"
        windows.write_text(f"start_s,end_s\n{start_s!r},{end_s!r}\n")
        fixed = {"mode": "MAXN", "network": "decode", "batch": "1"}
        (imported,), _ = import_files([windows, power], ORIGIN, fixed=fixed)
    (run,) = imported.runs
    return run.figures["energy_j"]


def _samples(power: Path) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and watts of the total."""
    with power.open(newline="") as file:
        rows = [(float(row["epoch_s"]), float(row["total_mw"])) for row in csv.DictReader(file)]
    times_s, milliwatts = np.array(rows).T
    return times_s, milliwatts / 1e3


def _by_trapezoid(power: Path, start_s: float, end_s: float) -> float:
    times_s, watts = _samples(power)
    inside = (times_s > start_s) & (times_s < end_s)
    at_s = np.concatenate([[start_s], times_s[inside], [end_s]])
    return float(np.trapezoid(np.interp(at_s, times_s, watts), at_s))


def _by_mean(power: Path, start_s: float, end_s: float) -> float:
    times_s, watts = _samples(power)
    inside = (times_s >= start_s) & (times_s <= end_s)
    return float(watts[inside].mean() * (end_s - start_s))


def differences(energies: Sequence[DecodeEnergy], other: str) -> np.ndarray:
    """Of Mansard's energies from the ones called ``other``, relative and without a sign."""
    return np.array([abs(one.windows_j / getattr(one, other) - 1) for one in energies])


def main(folder: Path) -> None:
    """Print the differences."""
    energies = list(decode_energies(folder))
    if not energies:
        sys.exit(f"{folder} holds no run: give the folder with *__energy.json")
    per_token = [one.windows_j / one.n_tokens for one in energies]
    print(f"{len(energies)} runs, {min(per_token):.3f} to {max(per_token):.3f} J a token")
    for other in ("author_j", "trapezoid_j", "mean_j"):
        relative = differences(energies, other)
        worst = energies[int(relative.argmax())].name
        print(
            f"windows against {other:12} median {np.median(relative):8.4%}  "
            f"worst {relative.max():8.4%}  ({worst})"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT)
