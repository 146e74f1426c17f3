"""The sum of layers that are run alone against the whole network, on this machine's CPU.

    python benchmarks/each_layer.py --runs ../layer-runs > docs/results/each_layer.md

Networks of the zoo on one thread, each whole, then cut into layers, then into stages. What is in
the folder of runs is not measured again. Prints the document of docs/results.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mansard import api
from mansard.api import results
from mansard.core.records import LayerTime

NETWORKS = "alexnet,lstm,mobilenet_v2,resnet18,squeezenet1_1"
TERMS = ("difference_s", "calls_s", "conversions_s", "fusion_s", "caches_s", "rest_s")
HEAD = """# Layers that are run alone, against the whole network

`python benchmarks/each_layer.py`: whole networks and their [layers or stages](../use/layers.md)
alone, ONNX Runtime {version}, one CPU thread ({machine}), profile `{profile}`. Shares are of the
whole network's time; the terms sum to the difference.

| network | parts | sum ms | whole ms | difference | calls | conversions | fusion | caches | rest |
|---|---|---|---|---|---|---|---|---|---|"""

SPREAD = """
Differences between two equal cuts:

| network | difference | calls | conversions | fusion | caches | rest |
|---|---|---|---|---|---|---|"""
ADDED = """
Fusion over cuts, and layers added by the engine:

| network | parts | fused over cuts | added in the whole | added in a part |
|---|---|---|---|---|"""


def main() -> None:
    """Measure what is missing, and print the document."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--networks", default=NETWORKS)
    parser.add_argument("--profile", default="quick")
    options = parser.parse_args()
    request = api.MeasureRequest(
        models=tuple(options.networks.split(",")),
        profile=options.profile,
        runs=options.runs,
        is_local=True,
        processor="cpu",
        mode="1c",
        settings=api.NetworkSettings(engine="ort", provider="cpu", threads=1),
    )
    progress = api.SilentReporter()
    layers = api.measure_layers(request, api.LayerSettings(kind="layer"), progress)
    stages = api.measure_layers(request, api.LayerSettings(kind="stage"), progress)
    first = layers.whole.rows[0]
    version = first.row.engine_version
    print(HEAD.format(version=version, machine=first.machine, profile=options.profile))
    cuts = {"layer": layers, "stage": stages}
    every = [(network, kind) for network in request.models for kind in cuts]
    sums = {(each.network, each.kind): each for one in cuts.values() for each in one.sums}
    print(*(sum_row(sums[one]) for one in every if one in sums), sep="\n")
    print(SPREAD, *filter(None, (spread_row(each, cuts) for each in request.models)), sep="\n")
    print(ADDED, *(added_row(network, kind, cuts[kind]) for network, kind in every), sep="\n")
    for result in (layers, stages):
        for each in result.sums:
            if each.difference_s is None:
                print(f"{each.network}: {each.unknown['difference_s']}", file=sys.stderr)


def sum_row(each: results.PartSum) -> str:
    """One row of the table of terms."""
    cells = [share(getattr(each, name), each.whole_s) for name in TERMS]
    times = [ms(each.parts_s), ms(each.whole_s)]
    parts = f"{each.n_measured} {each.kind}{'' if each.n_measured == 1 else 's'}"
    return f"| {' | '.join([each.network, parts, *times, *cells])} |"


def spread_row(network: str, cuts: Mapping[str, results.LayersResult]) -> str:
    """How far the terms of two equal cuts differ; empty where the cuts are not equal."""
    nodes = [
        [each.part.nodes for each in one.parts if (each.network, each.part.kind) == (network, kind)]
        for kind, one in cuts.items()
    ]
    if nodes[0] != nodes[1]:
        return ""
    first, second = (
        next(row for row in one.sums if (row.network, row.kind) == (network, kind))
        for kind, one in cuts.items()
    )
    cells = [network]
    for name in TERMS:
        ends_s = (getattr(first, name), getattr(second, name))
        apart_s = None if None in ends_s else abs(ends_s[0] - ends_s[1])
        cells.append(share(apart_s, first.whole_s).lstrip("+"))
    return f"| {' | '.join(cells)} |"


def added_row(network: str, kind: str, result: results.LayersResult) -> str:
    """How often the engine fused over a cut, and what it added, by operator."""
    whole = next(each.row for each in result.whole.rows if each.row.model == network)
    parts = [each.row for each in result.rows if each.row.part.whole == network]
    fused = next(
        each.n_fused for each in result.sums if (each.network, each.kind) == (network, kind)
    )
    own = [frozenset(row.part.nodes) for row in parts]
    functional = frozenset().union(*own)
    there = [layer for layer in whole.layers or () if not functional & {*(layer.nodes or ())}]
    here = [
        layer
        for row, nodes in zip(parts, own, strict=True)
        for layer in row.layers or ()
        if not nodes & {*(layer.nodes or ())}
    ]
    per_part = f"{len(here) / max(1, len(parts)):.1f} ({operators(here)})"
    cells = [network, f"{len(parts)} {kind}s", str(fused), operators(there), per_part]
    return f"| {' | '.join(cells)} |"


def operators(layers: Sequence[LayerTime]) -> str:
    """``12 ReorderInput, 12 ReorderOutput``."""
    names = [layer.op_type for layer in layers]
    counts = sorted({name: names.count(name) for name in names}.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{count} {name}" for name, count in counts[:4]) or "none"


def ms(seconds_s: float | None) -> str:
    """Milliseconds, three digits."""
    return "unknown" if seconds_s is None else f"{1e3 * seconds_s:.3g}"


def share(value_s: float | None, whole_s: float | None) -> str:
    """A difference as a share of the whole."""
    if value_s is None or not whole_s:
        return "unknown"
    return f"{100 * value_s / whole_s:+.1f} %".replace("-", "−")


if __name__ == "__main__":
    main()
