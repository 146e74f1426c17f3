"""FLOPs of networks exported by PyTorch, against PyTorch's own counter and published figures.

    pip install '.[export]' torchvision     # versions that belong together
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
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from mansard.core.errors import MansardError, ModelError
from mansard.core.records import LayerScore, Phase
from mansard.estimator import Given, Settings, load, score_loaded
from mansard.estimator.export.loading import load_network
from mansard.estimator.export.network import Network
from mansard.estimator.export.request import InputSpec, Request, parse_settings
from mansard.estimator.export.run import Exported, export_network
from mansard.estimator.export.tensors import example_tensors, flat_tensors

Exporter = Literal["dynamo", "torchscript"]
EXPORTERS: tuple[Exporter, ...] = ("dynamo", "torchscript")
PHASES: tuple[Phase, ...] = ("inference", "training")

TRAINING_LIMIT = 0.005
PUBLISHED_LIMIT = 0.002
ROUNDING_GMAC = 0.0005  # torchvision publishes three decimals

CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})

TRANSFORMERS = {
    "bert_base": "BertConfig",
    "distilbert": "DistilBertConfig",
    "albert": "AlbertConfig num_hidden_layers=4",
    "electra": "ElectraConfig",
    "gpt2": "GPT2LMHeadModel n_layer=6",
    "llama": "LlamaForCausalLM hidden_size=512 intermediate_size=1376 num_hidden_layers=4 "
    "num_attention_heads=8 num_key_value_heads=2",
    "qwen2": "Qwen2ForCausalLM hidden_size=512 intermediate_size=1376 num_hidden_layers=4 "
    "num_attention_heads=8 num_key_value_heads=2 vocab_size=32000",
    "mistral": "MistralConfig hidden_size=512 intermediate_size=1376 num_hidden_layers=4 "
    "num_attention_heads=8 num_key_value_heads=2",
    "t5": "T5Model num_layers=2",
    "whisper_encoder": "WhisperModel d_model=384 encoder_attention_heads=6 "
    "decoder_attention_heads=6 encoder_layers=4 decoder_layers=4 encoder_ffn_dim=1536 "
    "decoder_ffn_dim=1536",
    "wav2vec2": "Wav2Vec2Config num_hidden_layers=4",
    "hf_vit": "ViTConfig",
    "hf_deit": "DeiTConfig",
    "hf_swin": "SwinConfig",
    "hf_convnext": "ConvNextConfig",
    "hf_segformer": "SegformerConfig",
    "hf_mobilevit": "MobileViTConfig",
    "clip": "CLIPModel",
}
"""Networks of transformers: a class, and settings that make it small enough."""

KNOWN: dict[tuple[str, str, str], str] = {}
"""(network, exporter, quantity) that differ -> why; ``*`` stands for both exporters."""


class Counts(msgspec.Struct, frozen=True):
    """FLOPs of the multiply-adds of one network, of convolutions and of matrix products."""

    convolution: int = 0
    product: int = 0


class Evidence(msgspec.Struct, frozen=True):
    """What PyTorch gave: a file of each exporter, or why there is none, and its counts."""

    files: Mapping[Exporter, Exported | str]
    shapes: Mapping[str, tuple[int, ...]]  # of the inputs, when it counted
    counts: Mapping[Phase, Counts]


class Subject(msgspec.Struct, frozen=True):
    """One network to look at. ``published_gmac`` None: nothing to compare with."""

    name: str
    source: str
    inputs: tuple[InputSpec, ...] = ()
    settings: Mapping[str, object] = {}
    published_gmac: float | None = None


def subjects(data: Path) -> Iterator[Subject]:
    """torchvision's classifiers with their published figures, then those of transformers."""
    listed = json.loads((data / "torchvision_gmacs.json").read_text())
    for name, recorded in listed.items():
        facts = recorded or published_by_torchvision(name)  # two are listed without figures
        crop = facts["crop"]
        image = InputSpec("x", (1, 3, crop, crop))
        gmac = facts["published_gmacs"]
        yield Subject(name, f"torchvision:{name}", (image,), published_gmac=gmac)
    for name, told in TRANSFORMERS.items():
        cls, *settings = told.split()
        yield Subject(name, f"transformers:{cls}", settings=parse_settings(settings))


def published_by_torchvision(name: str) -> dict[str, Any]:
    """Crop and GMAC of the default weights of a classifier."""
    from mansard.estimator.export.extras import need

    weights = need("torchvision").models.get_model_weights(name).DEFAULT
    crop = weights.transforms.keywords["crop_size"]
    return {"crop": crop, "published_gmacs": weights.meta["_ops"]}


def is_traceable(network: Network) -> bool:
    """Whether ``forward`` never looks at a value; transformers looks at its masks."""
    return not type(network.module).__module__.startswith("transformers.")


def torch_counts(network: Network) -> dict[Phase, Counts]:
    """What PyTorch's counter says of one pass, and of a pass with its backward pass."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    device = "meta" if is_traceable(network) else "cpu"
    module = network.module.to(device)
    shapes = {one.name: one.shape for one in network.inputs}
    examples = {
        name: one.to(device) for name, one in example_tensors(network.inputs, shapes).items()
    }
    corrected = {torch.ops.aten.convolution_backward: convolution_backward_flop}
    counts: dict[Phase, Counts] = {}
    for phase in PHASES:
        mode = FlopCounterMode(display=False, custom_mapping=corrected)
        with sdpa_kernel(SDPBackend.MATH), mode:
            outputs = [one for one in flat_tensors(module(**examples)) if one.requires_grad]
            if phase == "training":
                sum(one.float().sum() for one in outputs).backward()
        module.zero_grad()
        counts[phase] = by_class(mode.get_flop_counts()["Global"])
    return counts


def convolution_backward_flop(
    gradient: Sequence[int],
    x: Sequence[int],
    weight: Sequence[int],
    _bias: object,
    _stride: object,
    _padding: object,
    _dilation: object,
    transposed: bool,
    _output_padding: object,
    _groups: int,
    wanted: Sequence[bool],
    out_shape: object = None,  # noqa: ARG001 - the counter gives it by name
) -> int:
    """Each gradient that is wanted, of data and of weights, costs a forward pass again."""
    from torch.utils.flop_counter import conv_flop_count

    forward = conv_flop_count(x, weight, gradient, transposed=transposed)
    return int(forward) * (wanted[0] + wanted[1])


def by_class(counted: Mapping[Any, int]) -> Counts:
    """The counter's operators as our two classes; raises ValueError for one of neither."""
    convolution = product = 0
    for operator, flop in counted.items():
        name = str(operator).removeprefix("aten.")
        if "convolution" in name:
            convolution += flop
        elif name in ("mm", "addmm", "bmm", "baddbmm"):
            product += flop
        elif flop:
            raise ValueError(f"the counter knows {operator}: a class is missing here")
    return Counts(convolution, product)


def our_counts(evidence: Evidence, exporter: Exporter) -> dict[Phase, Counts]:
    """The multiply-adds of a file, at the sizes that PyTorch's counter saw; raises ModelError."""
    exported = evidence.files[exporter]
    if isinstance(exported, str):
        raise ModelError(exported)
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


def evidence_of(
    subject: Subject, exporters: Sequence[Exporter], folder: Path, *, check: bool
) -> Evidence:
    """Export the network into ``folder`` and let PyTorch count it; or take both from there."""
    kept = folder / f"{subject.name}.json"
    if kept.exists():
        known = msgspec.json.decode(kept.read_bytes(), type=Evidence, dec_hook=to_path)
        if known.files.keys() >= set(exporters):
            return known
    request = Request(
        source=subject.source,
        output=folder / f"{subject.name}.onnx",
        inputs=subject.inputs,
        settings=subject.settings,
        with_weights=False,
        check=check,
    )
    network = load_network(request)
    files = {exporter: export_file(network, request, exporter) for exporter in exporters}
    shapes = {one.name: one.shape for one in network.inputs}
    evidence = Evidence(files, shapes, torch_counts(network))
    kept.write_bytes(msgspec.json.encode(evidence, enc_hook=str))
    return evidence


def to_path(kind: type, text: str) -> object:
    """JSON has no paths."""
    return kind(text)


def export_file(network: Network, request: Request, exporter: Exporter) -> Exported | str:
    """What was written, or why nothing was."""
    output = request.output.with_suffix(f".{exporter}.onnx")
    start_s = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as work:
            asked = msgspec.structs.replace(request, exporter=exporter, output=output)
            exported = export_network(network, asked, Path(work))
    except MansardError as error:
        return str(error)
    show_exported(output.stem, exported, time.monotonic() - start_s)
    return exported


def show_exported(name: str, exported: Exported, duration_s: float) -> None:
    """One line on the file: how it came about, and how far its outputs are from PyTorch's."""
    greatest = max((one.greatest_relative for one in exported.checks), default=None)
    checked = "unchecked" if greatest is None else f"relative difference {greatest:.1e}"
    size = f"{exported.n_nodes} nodes, {exported.size_bytes / 1e3:.0f} kB"
    print(f"  {name}: {size}, {checked}, {duration_s:.0f} s", flush=True)
    for line in exported.notes:
        print(f"    {line}")


def judge(subject: Subject, exporter: Exporter, evidence: Evidence) -> bool:
    """Print one row and what differs; whether all is right or explained."""
    row = "–"
    try:
        ours = our_counts(evidence, exporter)
        row = " ".join(f"{one / 1e9:10.4f}" for phase in PHASES for one in flat(ours[phase]))
        found = list(differences(subject, ours, evidence.counts))
    except MansardError as error:
        found = [("export or score", str(error))]
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
