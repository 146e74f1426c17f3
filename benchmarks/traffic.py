"""How far the traffic models are from what others measured, and what fusing changes.

    python benchmarks/traffic.py [--data ../shared/data]

Prints, as tables:
- fused bytes and kernels against recorded TensorRT engines;
- cache-aware bytes against 4,237 ReLUs and 1,381 linear layers on an A100: the
  distribution of the relative error, beside that of inputs plus outputs;
- the same for 110 convolutions, with the model of Winograd beside it;
- for the zoo: algorithmic, fused and cached bytes, and the number of kernels beside that
  of the graph that ONNX Runtime's own optimiser leaves (extended level).

The exit code is always 0: a report. A comparison with Nsight Compute on a card of one's
own is not written yet.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean, median, quantiles

import onnxruntime
from recorded.engines import CASES
from recorded.operators import (
    A100_CACHE_BYTES,
    Operator,
    convolutions,
    linear_network,
    linears,
    relu_network,
    relus,
)

from mansard.core.errors import MansardError
from mansard.core.precision import Precision
from mansard.estimator import zoo
from mansard.estimator.fusion import Fusion, fuse
from mansard.estimator.model import Given
from mansard.estimator.score_context import find_operators
from mansard.estimator.scoring import Loaded, load
from mansard.estimator.shape_inference.binding import bind
from mansard.estimator.shape_inference.inference import infer_shapes
from mansard.estimator.tensors import Node, walk
from mansard.estimator.traffic import (
    cached_traffic,
    fused_traffic,
    traffic,
    transformed_filter_bytes,
)

SMALLEST_BYTES = 2_000_000  # below, the counters' own noise shows
ORIN_CACHE_BYTES = 2 * 1024 * 1024  # half of a Jetson AGX Orin's L2


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description="the traffic models against recorded figures")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    folder = parser.parse_args().data
    show_engines(folder)
    if folder.is_dir():
        show_operators("ReLU", relu_network(), relus(folder))
        show_operators("linear", linear_network(), linears(folder))
    else:
        print(f"no recorded data in {folder}")
    show_convolutions()
    show_zoo()


def place(
    loaded: Loaded, given: Given, precision: Precision | None = None
) -> tuple[tuple[Node, ...], Fusion]:
    """The nodes of a network with their shapes, and their groups."""
    network = infer_shapes(loaded.model, bind(loaded.model, given), loaded.prepared)
    operators = find_operators(each.node for each in walk(network.nodes))
    outputs = [output.name for output in loaded.model.outputs]
    return network.nodes, fuse(network.nodes, outputs, operators, precision)


def show_engines(folder: Path) -> None:
    """One line for each recorded engine whose file is there."""
    print("\nTensorRT engines: bytes of kernels without reformats, and with; ours beside them")
    print(f"{'engine':29} {'GPU':9} {'recorded':>13} {'ours':>13} {'error':>8}", end="")
    print(f" {'with reformats':>14} {'error':>8} {'kernels':>13}")
    for case in CASES:
        if not (case.is_here or folder.is_dir()):
            continue
        engine = case.read(folder / "trtexec")
        nodes, fusion = place(load(case.draw(), case.name), Given(batch=case.batch), case.precision)
        types = {node.index: node.op_type for node in nodes}
        all_bytes = cast_bytes = n_kernels = 0
        for group in fusion.groups:
            moved = group.read_bytes + group.write_bytes
            all_bytes += moved
            n_kernels += moved > 0
            if [types[index] for index in group.indexes] == ["Cast"]:
                cast_bytes += moved  # TensorRT calls that a reformat
        ours = all_bytes - cast_bytes
        print(f"{case.name:29} {case.gpu:9} {engine.kernel_bytes:13,} {ours:13,}", end="")
        print(f" {ours / engine.kernel_bytes - 1:+8.2%} {engine.all_bytes:14,}", end="")
        print(f" {all_bytes / engine.all_bytes - 1:+8.2%} {engine.n_kernels:6}/{n_kernels:6}")


def show_operators(kind: str, data: bytes, operators: Iterable[Operator]) -> None:
    """The model's own code, on a network of one node."""
    loaded = load(data, kind)
    cached: list[float] = []
    naive: list[float] = []
    for operator in operators:
        _, fusion = place(loaded, Given(dims=operator.dims))
        (moved,) = fused_traffic(fusion).values()
        in_and_out = moved.read_bytes + moved.write_bytes
        if in_and_out > SMALLEST_BYTES:
            (modelled,) = cached_traffic(fusion, A100_CACHE_BYTES).values()
            cached.append(abs(modelled / operator.memory_bytes - 1))
            naive.append(abs(in_and_out / operator.memory_bytes - 1))
    print(f"\n{kind} on an A100, {len(cached)} of over 2 MB, C = {A100_CACHE_BYTES:,}: |error|")
    for name, errors in (("cache-aware", cached), ("in + out", naive)):
        steps = quantiles(errors, n=20)
        print(
            f"  {name:12} mean {mean(errors):8.3%}  median {steps[9]:8.3%}"
            f"  90 % {steps[17]:8.3%}  95 % {steps[18]:8.3%}  worst {max(errors):8.3%}"
        )


def show_convolutions() -> None:
    """Today's model and that of Winograd, on those it was made of and on others."""
    print(f"\nConvolutions on an A100, fp32 without TF32, C = {A100_CACHE_BYTES:,}: median |error|")
    print(f"{'':36} {'n':>3} {'cache-aware':>12} {'with transformed filters':>25}")
    rows: dict[str, list[tuple[float, float]]] = {}
    for convolution in convolutions():
        nodes, fusion = place(load(convolution.network(), "convolution"), Given())
        (cached,) = cached_traffic(fusion, A100_CACHE_BYTES).values()
        (moved,) = fused_traffic(fusion).values()
        made = transformed_filter_bytes(nodes[0])
        fits = moved.read_bytes + moved.write_bytes + made <= A100_CACHE_BYTES
        part = "held out" if convolution.is_held_out else "first"
        kind = f"{convolution.algorithm}, {part}, {'fits C' if fits else 'larger'}"
        more = made + max(0, made - A100_CACHE_BYTES) if convolution.algorithm == "winograd" else 0
        recorded = convolution.memory_bytes
        errors = abs(cached / recorded - 1), abs((cached + more) / recorded - 1)
        rows.setdefault(kind, []).append(errors)
    for kind, found in sorted(rows.items()):
        today, modelled = (median(errors) for errors in zip(*found, strict=True))
        print(f"{kind:36} {len(found):3} {today:12.1%} {modelled:25.1%}")


def show_zoo() -> None:
    """One line for each network of the zoo."""
    print("\nThe zoo at batch 1 (128 tokens, after 128 others in decoders), fp32;")
    print("cached: half of an AGX Orin's L2")
    print(f"{'network':20} {'algorithmic':>14} {'fused':>14} {'cached':>14}", end="")
    print(f" {'nodes':>6} {'kernels':>8} {'ONNX Runtime':>13}")
    for name in zoo.names():
        try:
            print(f"{name:20} {_zoo_row(zoo.read(name))}")
        except MansardError as error:
            print(f"{name:20} {error}")


def _zoo_row(data: bytes) -> str:
    loaded = load(data, "model")
    nodes, fusion = place(loaded, _given(loaded))
    operators = find_operators(nodes)
    live = [node for node in nodes if not node.is_constant]
    algorithmic = sum(
        traffic(node, operator, None).traffic_bytes
        for node in live
        if (operator := operators[node.domain, node.op_type]) is not None
    )
    fused = sum(m.read_bytes + m.write_bytes for m in fused_traffic(fusion).values())
    cached = sum(cached_traffic(fusion, ORIN_CACHE_BYTES).values())
    n_kernels = sum(bool(group.reads or group.writes) for group in fusion.groups)
    return (
        f"{algorithmic:14,} {fused:14,} {cached:14,}"
        f" {len(live):6} {n_kernels:8} {_runtime_kernels(data):13}"
    )


def _given(loaded: Loaded) -> Given:
    """Batch 1, and 128 for everything else that is open: new tokens and cached ones."""
    sources = loaded.model.inputs
    named = {name for source in sources for name in source.dimensions or () if name}
    open_names = {name for name in named if isinstance(name, str)} - {"batch"}
    return Given(batch=1, dims=dict.fromkeys(open_names, 128))


def _runtime_kernels(data: bytes) -> int:
    """Nodes that ONNX Runtime's optimiser leaves, those aside that only show a tensor."""
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(Path(folder) / "optimised.onnx")
        options.log_severity_level = 3
        onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        optimised = onnx.load(options.optimized_model_filepath, load_external_data=False)
    return sum(1 for _ in _kernels(optimised.graph.node))


def _kernels(nodes: Iterable[object]) -> Iterator[object]:
    views = {"Reshape", "Identity", "Flatten", "Squeeze", "Unsqueeze", "Shape", "Constant"}
    return (node for node in nodes if getattr(node, "op_type", "") not in views)


if __name__ == "__main__":
    main()
