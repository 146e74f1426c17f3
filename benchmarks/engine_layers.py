"""Layers of recorded engines joined to the nodes of their networks, and where their time goes.

``python benchmarks/engine_layers.py [--data FOLDER] [--runs RUNS] > docs/results/layers.md``:
FOLDER is ../shared/data by default. RUNS, a folder of runs with layers of resnet18, mobilenet_v2
and bert_base (``mansard bench --profile brief``, ``mansard measure …``), adds those.

The roofs of A100 are SMs × FLOP a cycle × clock by ``core/hardware/peaks.py`` and its memory's bus
× clock, with the SMs and clocks that trtexec printed beside the times. That table lacks the tensor
cores of GeForce cards for floats: 1,024 FLOP a cycle and SM in fp16 with fp16 sums (NVIDIA Ampere
GA102 white paper: 142 TFLOP/s of 82 SMs at 1.695 GHz), in TF32 256.

The remarks on the five largest gaps were written by hand, after a look at shapes and kernels.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recorded.engines import CASES, Case

from mansard.analytics.data.quantities import seconds
from mansard.analytics.models.layers.roofs import PeakKey
from mansard.analytics.models.layers.rows import RoofedLayer, RoofedLayers
from mansard.analytics.pages.figures.engine_layers import bound_text, layer_title
from mansard.api.engine_layers import layers
from mansard.core.hardware import sm_flop_per_cycle

DEFAULT_FOLDER = Path(__file__).resolve().parents[1] / "../shared/data"
GOAL = 0.97  # of the time, joined to nodes or named as a reformat
N_GAPS = 5
OWN = ("resnet18", "mobilenet_v2", "bert_base")
_FLOATS: Mapping[PeakKey, int] = {("fp16", "tensor"): 1024, ("tf32", "tensor"): 256}


@dataclass(frozen=True)
class Card:
    """A graphics card: SMs, clock of the SMs and of the memory in Hz, bits of the bus."""

    sm: int
    n_sms: int
    gpu_hz: float
    memory_hz: float
    bus_bits: int

    @property
    def bandwidth(self) -> float:
        """Bytes/s: two transfers a cycle."""
        return self.bus_bits / 8 * 2 * self.memory_hz

    @property
    def peaks(self) -> dict[PeakKey, float]:
        """FLOP/s by precision and unit."""
        cycles = self.n_sms * self.gpu_hz
        known: dict[PeakKey, float] = {
            (name, unit): flop * cycles
            for name in ("fp32", "tf32", "fp16", "int8")
            for unit in ("fma", "tensor")
            if (flop := sm_flop_per_cycle(self.sm, name, unit)) is not None
        }
        if self.sm == 86:
            known |= {key: flop * cycles for key, flop in _FLOATS.items()}
        return known


CARDS = {
    "A100": Card(80, 108, 1.41e9, 1.512e9, 5120),
    "RTX 3090": Card(86, 82, 1.695e9, 9.751e9, 384),
    "RTX 3060": Card(86, 30, 1.425e9, 7.001e9, 192),
}
_EDGE = "fuzzylabs+edge-vision-power-estimation__desktop__torch_onnx_trt__results__alexnet"
# Profiles without a description of their engine: file, network, GPU.
ALONE = (
    (f"{_EDGE}__trt_profiling__trt_layer_latency.json", "alexnet", "RTX 3060"),
    (
        "NVIDIA+Deep-Learning-Accelerator-SW__cudla_layerwise_stats_orin_resnet34.csv",
        "resnet34",
        "DLA of AGX Orin",
    ),
)


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DEFAULT_FOLDER)
    parser.add_argument("--runs", type=Path)
    options = parser.parse_args()
    results = [*recorded(options.data / "trtexec"), *measured(options.runs)]
    print(HEAD)
    for name, result in results:
        print(share_row(name, result))
    print("\n## The largest gaps")
    for name, result in results:
        print(f"\n### {name}\n")
        print("\n".join(gap_lines(result)))
        print(f"\n{REMARKS.get(name, 'Nobody has looked at it yet.')}")


def recorded(folder: Path) -> Iterator[tuple[str, RoofedLayers]]:
    """Each recorded engine by its name, with its layers."""
    for case in CASES:
        if not case.is_here:
            yield f"{case.name}, {case.gpu}", of_case(case, folder)
    for file, network, gpu in ALONE:
        card = CARDS.get(gpu)
        (result,) = layers(
            network,
            profile=folder / file,
            precision="fp16",
            peaks=None if card is None else card.peaks,
            bandwidth=None if card is None else card.bandwidth,
        )
        yield f"{network} without a description, {gpu}", result


def of_case(case: Case, folder: Path) -> RoofedLayers:
    """The layers of an engine whose network a function draws."""
    card, graph = CARDS.get(case.gpu), folder / case.file
    profile = folder / case.file.replace(".graph.json", ".profile.json")
    with tempfile.TemporaryDirectory(prefix="mansard-") as made:
        model = Path(made, f"{case.name.replace(' ', '_')}.onnx")
        model.write_bytes(case.draw())
        (result,) = layers(
            model,
            profile=profile,
            description=graph if graph != profile else None,
            peaks=None if card is None else card.peaks,
            bandwidth=None if card is None else card.bandwidth,
        )
    return result


def measured(runs: Path | None) -> Iterator[tuple[str, RoofedLayers]]:
    """The networks of OWN in a folder of runs."""
    if runs is None:
        return
    for name in OWN:
        for result in layers(name, runs=[runs]):
            yield f"{name}, {result.device}, ONNX Runtime", result


def share_row(name: str, result: RoofedLayers) -> str:
    """The row of an engine in the table of shares."""
    n_joined = sum(bool(row.nodes) for row in result.layers)
    known = None if result.lost_share is None else 1 - result.lost_share
    cells = (
        name,
        f"{len(result.layers)}",
        f"{n_joined}",
        "–" if result.layers_s is None else seconds(result.layers_s),
        *map(_percent, (result.joined_share, result.reformat_share, result.own_share)),
        _percent(result.guessed_share),
        _percent(result.joined_work_share),
        "no times" if known is None else "yes" if known >= GOAL else "**no**",
    )
    return f"| {' | '.join(cells)} |"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def gap_lines(result: RoofedLayers) -> Sequence[str]:
    """The five layers with the largest gap, or that take most time."""
    head = "| layer | runs | time | share | at the roof | gap | of the roof | bound by | remark |"
    rows = [_gap_row(row) for row in result.layers[:N_GAPS]]
    return [head, f"|{'---|' * 9}", *rows]


def _gap_row(row: RoofedLayer) -> str:
    cells = (
        layer_title(row, 60),
        "+".join(row.operators[:3]) or row.kind,
        "–" if row.time_s is None else seconds(row.time_s),
        _percent(row.share),
        "–" if row.roof_s is None else seconds(row.roof_s),
        "–" if row.gap_s is None else seconds(row.gap_s),
        _percent(row.roof_share),
        bound_text(row),
        row.remark,
    )
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


HEAD = """\
# Layers of recorded engines

`python benchmarks/engine_layers.py`: the share of an engine's time that `mansard models layers`
joins to nodes, and the layers with the largest gaps. The recorded engines have other node names, so
shapes and the data flow join them. *Joined*: layers with nodes; *reformats*: copies between
formats; *own*: other layers of the engine; *guessed*: joined by the order of operators alone. Goal:
at most 3 % of the time is neither. The remarks are by Mansard's authors.

| engine | layers | with nodes | time | joined | reformats | own | guessed | work joined | goal |
|---|---|---|---|---|---|---|---|---|---|"""

REMARKS: Mapping[str, str] = {
    "resnet18 fp32, A100": """\
Plausible. The first convolution alone works in FP32 on CUDA cores, the others in TF32: a quarter
of the time. The last two rows are launches.""",
    "resnet18 fp16, A100": """\
Plausible. The first convolution has 3 channels and a copy of the input from fp32: 19 % of the
time. fp16 inputs save the copy. The 3×3 convolutions at 44 % of the peak have only 64 channels.""",
    "resnet18 int8, A100": """\
Plausible. The first convolution runs as dp4a and writes fp32, so the pool moves four times the
bytes. Quantise the pool's input.""",
    "resnet50 fp32, RTX 3090": """\
Plausible in the first row (3 channels). The 3×3 convolutions reach 61 % of the FP32 peak, usual for
FFMA kernels.""",
    "resnet50 fp16, RTX 3090": """\
Plausible: 3 channels, and a transpose of the input. Another export avoids both.""",
    "resnet50 int8, RTX 3090": """\
Plausible: dp4a for 3 channels, the transpose, and two paddings as nodes.""",
    "alexnet fp16, RTX 3060": """\
Plausible in part. At batch 1 the convolutions have too few tiles for 30 SMs; a batch closes the
gap. The largest layer, 46 % of the time, is at 94 % of its roof.""",
    "mobilenet_v2 fp16, RTX 3060": """\
The bound is plausible, the order is not: nearly all layers are launches of 5 to 10 µs. A batch
closes the gaps.""",
    "vgg16 fp16, Orin Nano": """\
The file has no times.""",
    "alexnet without a description, RTX 3060": """\
The join is plausible. The same card was twice as fast above, so the two largest gaps are
doubtful.""",
    "resnet34 without a description, DLA of AGX Orin": """\
A DLA has no known roof. The order is right. The file has the first 9 layers, 24 % of the work.""",
    "resnet18, AMD EPYC, ONNX Runtime": """\
Plausible. Outputs of 7 × 7 are few for a kernel's tiles: 70 % of the peak, other stages 84 to 92 %.
Layers of equal shapes differ by less than 3 %.""",
    "mobilenet_v2, AMD EPYC, ONNX Runtime": """\
Plausible in kind. The gaps are too large: the layers sum to 7.8 ms, a call without a profile takes
4.2 ms.""",
    "bert_base, AMD EPYC, ONNX Runtime": """\
The bound is plausible, the order is chance: the same product takes 3.1 to 3.7 ms in the twelve
blocks, at 70 to 79 % of the peak.""",
}

if __name__ == "__main__":
    main()
