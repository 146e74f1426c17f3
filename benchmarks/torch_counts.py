"""FLOPs of networks exported by PyTorch, against PyTorch's own counter and published figures.

    pip install -c constraints-export.txt '.[export]' torchvision
    python benchmarks/torch_counts.py [--data ../shared/data/onnx] [--only REGEX] [--check]
        [--keep FOLDER]                     # exported files and counts; used again from there

Each network is exported by both of PyTorch's exporters, without weights and with a
symbolic batch, and scored at batch 1. Compared, for convolutions and for matrix
products apart:

- forward: exactly equal to ``torch.utils.flop_counter``;
- training: within 0.5 %;
- torchvision's published GMAC: within 0.2 %, or the rounding of three decimals.

The counter runs on shapes alone where it can (the meta device), with attention written
out as matrix products: the fused one counts as 0 on a CPU. Its count of the backward
pass of grouped convolutions is wrong (MobileNetV2: 20 times too much) and replaced here.
Recurrent layers are left out: it counts them as 0, or step by step.

Exit code 1 where a network differs and KNOWN does not say why.
"""

from __future__ import annotations

import argparse
import gc
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from torch_networks.counting import PHASES, Counts
from torch_networks.evidence import EXPORTERS, Evidence, Exporter, evidence_of
from torch_networks.subjects import Subject, subjects

from mansard.core.errors import MansardError
from mansard.core.records import LayerScore, Phase
from mansard.estimator import Given, Settings, load, score_loaded
from mansard.estimator.export import Exported

TRAINING_LIMIT = 0.005
PUBLISHED_LIMIT = 0.002
ROUNDING_GMAC = 0.0005  # torchvision publishes three decimals

CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})

_POSITIONS = (
    "its position biases come from weights alone, by two products a block: folded before "
    "inference, like any work on constants; PyTorch does it in every pass"
)

KNOWN: dict[tuple[str, str, str], str] = {
    (network, "*", quantity): _POSITIONS
    for network in ("swin_v2_t", "swin_v2_s", "swin_v2_b")
    for quantity in ("inference product", "published")
}
KNOWN["whisper", "torchscript", "export"] = "that exporter has no aten::diff"
"""(network, exporter, quantity) that differ -> why; ``*`` stands for both exporters."""


def our_counts(evidence: Evidence, exported: Exported) -> dict[Phase, Counts]:
    """The multiply-adds of a file, at the sizes that PyTorch's counter saw; raises ModelError."""
    sizes = {
        symbol: shape[axis]
        for name, shape in evidence.shapes.items()
        for axis, symbol in enumerate(exported.inputs.get(name, ()))
        if isinstance(symbol, str)
    }
    batch = sizes.pop("batch", None)
    loaded = load(exported.paths[0])
    counts: dict[Phase, Counts] = {}
    for phase in PHASES:
        settings = Settings(Given(batch, sizes), phase=phase)
        layers = score_loaded(loaded, settings).layers
        convolution = sum(one.multiply_add_flop or 0 for one in layers if is_convolution(one))
        product = sum(one.multiply_add_flop or 0 for one in layers if not is_convolution(one))
        counts[phase] = Counts(convolution, product)
    return counts


def is_convolution(layer: LayerScore) -> bool:
    """Whether the counter would call it one."""
    return layer.op_type in CONVOLUTIONS


def flat(counts: Counts) -> tuple[int, int]:
    """Both classes, in the order of the table."""
    return counts.convolution, counts.product


def differences(
    subject: Subject, ours: Mapping[Phase, Counts], theirs: Mapping[Phase, Counts]
) -> Iterator[tuple[str, str]]:
    """What is not as it should be: the quantity, and both numbers."""
    for phase in PHASES:
        limit = 0.0 if phase == "inference" else TRAINING_LIMIT
        for kind in ("convolution", "product"):
            mine, other = getattr(ours[phase], kind), getattr(theirs[phase], kind)
            if abs(mine - other) > limit * other:
                share = f"{mine / other - 1:+.4%}" if other else "of nothing"
                yield f"{phase} {kind}", f"{mine:,} here, {other:,} there ({share})"
    published = subject.published_gmac
    if published is not None:
        gmac = (ours["inference"].convolution + ours["inference"].product) / 2e9
        if abs(gmac - published) > max(PUBLISHED_LIMIT * published, ROUNDING_GMAC):
            yield "published", f"{gmac:.4f} GMAC here, {published} published"


def judge(subject: Subject, exporter: Exporter, evidence: Evidence) -> bool:
    """Print one row and what differs; whether all is right or explained."""
    row = "–"
    exported = evidence.files[exporter]
    if isinstance(exported, str):
        found = [("export", exported)]
    else:
        try:
            ours = our_counts(evidence, exported)
            row = " ".join(f"{one / 1e9:10.4f}" for phase in PHASES for one in flat(ours[phase]))
            found = list(differences(subject, ours, evidence.counts))
        except MansardError as error:
            found = [("score", str(error))]
    reasons = [(quantity, why, reason_for(subject, exporter, quantity)) for quantity, why in found]
    is_right = all(reason is not None for *_, reason in reasons)
    verdict = "right" if not found else "explained" if is_right else "WRONG"
    print(f"{subject.name:22} {exporter:12} {row:43} {verdict}", flush=True)
    for quantity, why, reason in reasons:
        print(f"    {quantity}: {why}; {reason or 'unexplained'}", flush=True)
    return is_right


def reason_for(subject: Subject, exporter: Exporter, quantity: str) -> str | None:
    """Why this quantity differs, where that is known."""
    for name in (exporter, "*"):
        reason = KNOWN.get((subject.name, name, quantity))
        if reason is not None:
            return reason
    return None


def main() -> int:
    """Print a line for each network and exporter, and a summary; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/onnx"))
    parser.add_argument("--only", default="", help="networks whose name matches this")
    parser.add_argument("--exporter", choices=EXPORTERS, action="append")
    parser.add_argument("--check", action="store_true", help="compare outputs, too")
    parser.add_argument("--keep", type=Path, help="folder for the files and counts")
    options = parser.parse_args()
    columns = ("conv", "product", "train conv", "train prod.")
    print(f"{'GFLOP':22} {'exporter':12} " + " ".join(f"{one:>10}" for one in columns))
    with tempfile.TemporaryDirectory() as scratch:
        verdicts = list(run(options, options.keep or Path(scratch)))
    n_wrong = verdicts.count(False)
    print(f"{len(verdicts)} files, {len(verdicts) - n_wrong} right or explained, {n_wrong} wrong")
    return 1 if n_wrong or not verdicts else 0


def run(options: argparse.Namespace, folder: Path) -> Iterator[bool]:
    """A verdict for each file."""
    exporters = options.exporter or EXPORTERS
    for subject in subjects(options.data):
        if re.search(options.only, subject.name):
            evidence = evidence_of(subject, exporters, folder, check=options.check)
            yield from (judge(subject, exporter, evidence) for exporter in exporters)
            gc.collect()


if __name__ == "__main__":
    sys.exit(main())
