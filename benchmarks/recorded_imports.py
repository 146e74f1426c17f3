"""What ``mansard data import`` reads from files of tools that others recorded, in Markdown.

``python benchmarks/recorded_imports.py [FOLDER] > docs/results/imports.md``: FOLDER is
../shared/data by default. Networks and modes that a file does not say are given here as with
``--fixed``, from SOURCES.md beside the files. No figure is taken from anywhere else.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mansard.analytics.data.published.importing import Imported, import_files
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.analytics.data.published.runs import published_layers
from mansard.analytics.data.quantities import seconds

DEFAULT_FOLDER = Path(__file__).resolve().parents[1] / "../shared/data"


@dataclass(frozen=True)
class Group:
    """Files of one engine or one board, and what a person has to say of them."""

    pattern: str  # below the folder
    device: str
    fixed: dict[str, str] = field(default_factory=dict)
    mode: str = "not said"


GROUPS: Sequence[Group] = (
    Group("trtexec/fuzzylabs*alexnet_fp16.*", "RTX 3060 Laptop", {"network": "alexnet"}),
    Group("trtexec/fuzzylabs*mobilenet_v2_fp16.*", "RTX 3060 Laptop", {"network": "mobilenet_v2"}),
    Group("trtexec/fuzzylabs*trt_layer_latency.json", "RTX 3060 Laptop", {"network": "alexnet"}),
    Group("trtexec/fuzzylabs*vgg16*", "Jetson Orin Nano", {"network": "vgg16"}),
    Group("trtexec/gwonxhj*", "Jetson Orin Nano 8GB", {"network": "resnet18"}),
    Group("trtexec/NVIDIA-AI-IOT*", "Jetson AGX Orin"),
    Group("trtexec/NVIDIA+Deep*", "Jetson AGX Orin", {"network": "resnet34"}),
    Group("trtexec/trex*A100__fp*", "A100", {"network": "resnet18", "batch": "32"}),
    Group("trtexec/trex*A100__qat*", "A100", {"network": "resnet18", "batch": "32"}),
    Group("trtexec/trex*RTX3090*", "RTX 3090", {"network": "resnet50", "batch": "32"}),
    Group("benchmarks/mlcommons*summary.txt", "Jetson AGX Orin", {"network": "resnet50"}, "MaxQ"),
    Group("benchmarks/mlcommons*perf_power.csv", "Orin_TRT_MaxQ", {}, "MaxQ"),
)


def main(arguments: Sequence[str]) -> None:
    """Prints the table."""
    folder = Path(arguments[0]) if arguments else DEFAULT_FOLDER
    print(HEAD)
    for group in GROUPS:
        paths = sorted(folder.glob(group.pattern))
        origin = PublishedOrigin(device=group.device, processor="gpu", citation="SOURCES.md")
        fixed = {"mode": group.mode, **group.fixed}
        for path, found in zip(paths, import_files(paths, origin, fixed=fixed), strict=True):
            print(f"| {_short(path)} | {group.device} | {'; '.join(_cells(found))} |")


def _short(path: Path) -> str:
    """A file's repository and name, without the folders between them."""
    first, *_, last = re.split(r"__", path.name)
    engine = re.search(r"__((?:A100|RTX3090-tf)__\w+)__", path.name)
    return f"{first} `{engine[1] + '/' if engine else ''}{last}`"


def _cells(found: tuple[Imported, ...]) -> Iterator[str]:
    for one in found:
        if not one.rows:
            yield "no row: " + "; ".join(one.notes)
        elif one.runs:
            yield from _runs(one)
        else:
            yield _layers(one)


def _runs(one: Imported) -> Iterator[str]:
    if len(one.runs) > 3:
        timed = sum(run.latency_s is not None for run in one.runs)
        metered = sum(run.power_w is not None for run in one.runs)
        yield f"{len(one.runs)} runs, {timed} with a time, {metered} with a power"
        return
    for run in one.runs:
        time = "" if run.latency_s is None else f"{seconds(run.latency_s)} "
        figures = run.figures
        if "deviation_s" in figures:
            time += f"± {seconds(figures['deviation_s'])} of {figures['samples']:.0f} "
        rates = [f"{value:.4g} {name}" for name, value in figures.items() if "per_s" in name]
        said = f"{run.network} {run.precision or '(precision not said)'}"
        yield f"{said}: {time}{' '.join(rates)}".strip().replace("\u00a0", " ")


def _layers(one: Imported) -> str:
    kinds = [layer.kind for layer in one.layers]
    nodes = {part for layer in one.layers for part in layer.parts}
    timed = published_layers(one.layers)
    total = f", {seconds(float(timed['seconds_s'].sum()))} in sum" if timed.height else ""
    return (
        f"{len(kinds)} layers{total}: {kinds.count('layer')} of nodes, {kinds.count('region')} "
        f"regions, {kinds.count('engine')} of the engine's own; {len(nodes)} nodes named"
    ).replace("\u00a0", " ")


HEAD = """# Recorded files of tools, imported

`python benchmarks/recorded_imports.py`: `mansard data import` of recorded files. Times are medians
of GPU compute time, ± the standard deviation of queries. Layers are timed one by one, so their sum
exceeds the network's time.

| file | device | what it gave |
|---|---|---|"""

if __name__ == "__main__":
    main(sys.argv[1:])
