"""Parts of a prepared network, each prepared as a network of its own.

Layers and stages are cut out of it; a prefix is all stages up to one; a marked network is the whole
network with the tensor after a stage as an additional output.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec.structs import replace

from mansard.core.errors import MansardError, ModelError, UsageError
from mansard.core.hashing import content_hash
from mansard.core.records import LayerScore, NetworkPart
from mansard.core.storage.files import storage_errors, write_atomic
from mansard.estimator import is_functional
from mansard.inference.engines import find_engine
from mansard.inference.inputs import make_inputs
from mansard.inference.preparing.arrays import find_readers, guess
from mansard.inference.preparing.cutting import (
    CutGraph,
    CutPart,
    cut_points,
    layer_parts,
    parts_between,
    read_graph,
    stage_parts,
)
from mansard.inference.preparing.networks import PreparedNetwork, in_words
from mansard.inference.preparing.networks import write as write_network

if TYPE_CHECKING:
    from mansard.inference.npz import Array

_CUT_VERSION = 2  # of what a file of a part is made of
_QUANTISED = frozenset({"int8", "fp8"})
# Of stages that run in turn. On a CPU, 16-bit numbers are rounded only at cuts.
_MOST_ERROR, _MOST_ERRORS = 1e-6, {"fp16": 0.02, "bf16": 0.1}
_SCALING = frozenset({"QuantizeLinear", "DequantizeLinear"})


class PreparedPart(PreparedNetwork, frozen=True, kw_only=True):
    """A part of ``whole``, which it is cut out of."""

    whole: PreparedNetwork
    types: str  # the precision of its file: that of the whole, but for int8 without scales
    places: tuple[int, ...]  # of its nodes in the graph of the whole's file
    gives: dict[str, tuple[int, ...]]  # the shapes of its outputs, in their order
    marked: tuple[str, ...] = ()  # inner tensors that are outputs as well

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the part's outputs, in order."""
        return self.gives


class CutChoice(NamedTuple):
    """A place between two of the finest stages, where only one tensor is alive."""

    number: int  # of the stage before it
    node: int  # the last of that stage with a label, by LayerScore.index
    tensor: str
    n_bytes: int  # of the tensor, as the file has it


class Cut(NamedTuple):
    """The parts of a network, and notes on nodes that are in no part, a line each."""

    parts: tuple[PreparedPart, ...]
    left_out: tuple[str, ...]


def cut(whole: PreparedNetwork, folder: Path, kind: Literal["layer", "stage"]) -> Cut:
    """The layers or stages of ``whole``, which is written into ``folder`` if it is missing.

    Layers are the groups of nodes that the estimator takes for one kernel, where they work or move
    something; stages lie between the places where one tensor alone lives. A part that cannot be
    run alone, as its inputs cannot be made, is left out. Raises ModelError and StorageError.
    """
    graph = _read(whole, folder)
    groups = (layer_parts if kind == "layer" else stage_parts)(graph, whole.score.layers)
    parts: list[PreparedPart] = []
    left_out: list[str] = []
    for number, places in enumerate(groups):
        try:
            parts.append(_prepared(whole, graph, places, kind, number, len(groups)))
        except MansardError as error:
            left_out.append(f"{whole.model} {kind} {number} is not run alone: {error}")
    return Cut(tuple(parts), tuple(left_out))


def cut_choices(whole: PreparedNetwork, folder: Path) -> tuple[CutChoice, ...]:
    """The places between the finest stages of ``whole``; raises as ``cut``."""
    graph = _read(whole, folder)
    living = cut_points(graph)
    choices = []
    for number, places in enumerate(stage_parts(graph, whole.score.layers)[:-1]):
        name = living[places[-1]]
        node = next(label for at in reversed(places) for label in reversed(graph.labels[at]))
        choices.append(CutChoice(number, node, name, graph.tensors[name].n_bytes(None)))
    return tuple(choices)


def group_cuts(whole: PreparedNetwork, folder: Path, n_groups: int) -> tuple[int, ...]:
    """The cuts of ``whole`` into groups of consecutive stages of about the same cost.

    A stage costs the larger of its shares of the network's work and of its fused traffic (max(W, Q)
    without a machine); the sum of the groups' squared costs is minimal. Fewer groups where there
    are fewer stages. Raises ModelError where there is no cut, and as ``cut``.
    """
    graph = _read(whole, folder)
    stages = stage_parts(graph, whole.score.layers)
    n_groups = min(n_groups, len(stages))
    if len(stages) < 2:
        raise ModelError(
            f"{whole.model} has no cut: nowhere inside it one tensor alone lives",
            fix="run it whole",
        )
    rows = [_rows(whole, graph, places) for places in stages]
    works = [sum(row.work_flop or 0 for row in layers) for layers in rows]
    bytes_ = [sum(row.fused_traffic_bytes or 0 for row in layers) for layers in rows]
    totals = sum(works) or 1, sum(bytes_) or 1
    until = [0.0]  # the cost of all stages before each
    for work, n_bytes in zip(works, bytes_, strict=True):
        until.append(until[-1] + max(work / totals[0], n_bytes / totals[1]))
    # For the best grouping of the first stages: the sum of squares, and the cuts.
    best: list[tuple[float, tuple[int, ...]]] = [(total**2, ()) for total in until]
    for n_before in range(1, n_groups):
        best = [
            min(
                (before + (until[end] - until[at]) ** 2, (*cuts, at - 1))
                for at, (before, cuts) in enumerate(best[:end])
                if at >= n_before
            )
            if end > n_before
            else (0.0, ())
            for end in range(len(until))
        ]
    return best[-1][1]


def split(
    whole: PreparedNetwork,
    folder: Path,
    cuts: Sequence[int] | None,
    kind: Literal["stage", "prefix", "marked"] = "stage",
) -> tuple[PreparedPart, ...]:
    """``whole`` cut after those of its finest stages whose numbers are ``cuts``; as ``cut``.

    None: wherever one tensor alone lives, also inside fused groups. "stage": the groups between the
    cuts. "prefix": the groups up to each, of which the last is the whole network. "marked": the
    network with one output more at each cut. Raises UsageError for a number that is no cut, and
    ModelError for a group that cannot be run alone.
    """
    graph = _read(whole, folder)
    living = cut_points(graph)
    if cuts is None:
        ends = list(living)
    else:
        stages = stage_parts(graph, whole.score.layers)
        if wrong := [cut for cut in cuts if not 0 <= cut < len(stages) - 1]:
            raise UsageError(
                f"{whole.model} has no cut {wrong[0]}",
                fix=f"use 0 to {len(stages) - 2}" if len(stages) > 1 else "run it whole",
            )
        ends = [stages[cut][-1] for cut in sorted(set(cuts))]
    groups = parts_between(graph, ends)
    if kind == "marked":
        return tuple(
            _prepared(whole, graph, graph.moving, kind, number, len(groups), marked=(living[end],))
            for number, end in enumerate(ends)
        )
    if kind == "prefix":
        groups = [
            tuple(at for group in groups[: n + 1] for at in group) for n in range(len(groups))
        ]
    return tuple(
        _prepared(whole, graph, places, kind, number, len(groups))
        for number, places in enumerate(groups)
    )


def verify(
    whole: PreparedNetwork,
    parts: Iterable[PreparedPart],
    folder: Path,
    *,
    is_optimised: bool = False,
) -> float:
    """The largest relative error of what ``parts`` make in turn of an input of ``whole``.

    On ONNX Runtime on the CPU, with the weights of the file, or random ones where it has none. Each
    tensor at a cut is held against that of the whole network with these tensors as outputs, and
    what comes out against the network as it is; an error is relative to the largest number of its
    tensor, and infinite where only one of both is no number. Nodes are not fused, unless
    ``is_optimised``: rounding then differs by what each cut keeps from being fused. Raises
    MeasurementError where ONNX Runtime cannot run one of them.
    """

    def run(network: PreparedNetwork, arrays: dict[str, Array]) -> dict[str, Array]:
        write(network, folder)
        trial = network.trial(engine="ort", provider="cpu")
        fed = {spec.name: arrays[spec.name] for spec in trial.input_specs}
        loaded = ort.load(trial, folder, fed, 0, is_optimised=is_optimised)
        try:
            outputs: dict[str, Array] = loaded.outputs(fed)
        finally:
            loaded.close()
        return outputs

    ort: Any = find_engine("ort")
    graph, seed = _read(whole, folder), whole.recipe.seed
    arrays = make_inputs(whole.trial(engine="ort", provider="cpu"), folder, seed)
    parts = tuple(parts)
    inside = {name for part in parts for name in part.outputs} - graph.outputs.keys()
    marked = _prepared(whole, graph, graph.moving, "marked", 0, 1, marked=tuple(sorted(inside)))
    expected = {**run(marked, arrays), **run(whole, arrays)}
    for part in parts:
        arrays |= run(part, arrays)
    return max(_error(arrays[name], expected[name]) for name in (*inside, *graph.outputs))


def check_stages(whole: PreparedNetwork, folder: Path) -> str:
    """Raise ModelError where the finest stages of ``whole`` compute something different.

    Returns why this cannot be checked (a stage or ONNX Runtime cannot run), or an empty string.
    """
    cuts = [choice.number for choice in cut_choices(whole, folder)]
    there = set(folder.iterdir())
    try:
        stages = split(whole, folder, cuts)
        error = verify(whole, stages, folder)
    except MansardError as why:
        return str(why)
    finally:
        for path in set(folder.iterdir()) - there:
            path.unlink()
    if error > _MOST_ERRORS.get(whole.precision, _MOST_ERROR):
        raise ModelError(
            f"{whole.model} computes something else in {len(stages)} stages: off by {error:.1e} of "
            "the largest number of a tensor",
            fix="run it whole; a network that draws random numbers always differs",
        )
    return ""


def _error(actual: Array, expected: Array) -> float:
    """The largest difference, relative to the largest expected number."""
    import numpy as np

    ours, theirs = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    differs = (ours != theirs) & ~(np.isnan(ours) & np.isnan(theirs))
    if not differs.any():
        return 0.0
    gap = float(np.max(np.abs(ours - theirs)[differs]))  # NaN where only one is a number
    largest = np.max(np.abs(theirs), where=np.isfinite(theirs), initial=np.finfo("f4").tiny)
    return float("inf") if np.isnan(gap) else gap / float(largest)


def write(network: PreparedNetwork, folder: Path) -> tuple[str, ...]:
    """Write the missing files of a network or part into ``folder``; returns the names of all.

    Raises ModelError, StorageError, and InputError for a file that has changed since it was read.
    """
    if not isinstance(network, PreparedPart):
        return write_network(network, folder)
    whole = network.whole
    if not (folder / network.file).exists():
        graph = _read(whole, folder)
        part = graph.part(network.places, network.marked)
        model = graph.model_of(part, network.model)
        with storage_errors(folder / network.file):
            write_atomic(folder / network.file, model.SerializeToString(deterministic=True))
    beside = {*whole.files.linked, whole.files.weights, whole.inputs_file}
    return (network.file, *sorted(filter(None, beside)))


def _read(whole: PreparedNetwork, folder: Path) -> CutGraph:
    if not (folder / whole.file).exists():
        write_network(whole, folder)
    return read_graph(folder / whole.file)


def _rows(whole: PreparedNetwork, graph: CutGraph, places: Iterable[int]) -> list[LayerScore]:
    rows = {row.index: row for row in whole.score.layers if not row.scope}
    return [rows[label] for at in places for label in graph.labels[at] if label in rows]


def _prepared(
    whole: PreparedNetwork,
    graph: CutGraph,
    places: Collection[int],
    kind: Literal["layer", "stage", "prefix", "marked"],
    number: int,
    n_parts: int,
    *,
    marked: tuple[str, ...] = (),
) -> PreparedPart:
    part, rows = graph.part(places, marked), _rows(whole, graph, sorted(places))
    name = f"{whole.model} {kind} {number}"
    working = [row for row in rows if is_functional(row)]
    described = NetworkPart(
        whole=whole.model,
        whole_hash=whole.model_hash,
        kind=kind,
        number=number,
        n_parts=n_parts,
        nodes=tuple(row.index for row in working),
        op_types=tuple(row.op_type for row in working),
    )
    whole_specs = {spec.name: spec for spec in whole.input_specs}
    readers = find_readers(graph.estimated)
    specs = tuple(
        whole_specs.get(read) or guess(graph.tensors[read], readers, graph.tensors)
        for read in part.inputs
    )
    mark = (marked,) if marked else ()
    digest = content_hash([whole.file_hash, part.places, _CUT_VERSION, *mark])
    model_hash = content_hash([whole.model_hash, part.labels, *mark])
    file = f"{whole.recipe.stem}-{described.kind}{described.number}-{digest}.onnx"
    is_given = any(spec.fill == "file" for spec in specs)
    return PreparedPart(
        model=name,
        model_hash=model_hash,
        file=file,
        file_hash=digest,
        inputs_file=whole.inputs_file if is_given else "",
        inputs_hash=whole.inputs_hash if is_given else "",
        input_specs=specs,
        inputs=in_words(specs),
        precision=whole.precision,
        batch=whole.batch,
        dimensions=whole.dimensions,
        score=replace(whole.score, model=name, model_hash=model_hash, layers=tuple(rows)),
        notes=(),
        recipe=whole.recipe,
        files=replace(whole.files, file=file, file_hash=digest, made={file: graph.n_bytes(part)}),
        part=described,
        whole=whole,
        types=_types(whole, graph, part),
        places=part.places,
        gives={n: graph.tensors[n].shape for n in part.outputs if graph.has_shape(n)},
        marked=marked,
    )


def _types(whole: PreparedNetwork, graph: CutGraph, part: CutPart) -> str:
    """The types in a part's file: in an int8 network, only some parts have scales."""
    if whole.precision not in _QUANTISED or graph.op_types(part) & _SCALING:
        return whole.precision
    names = {graph.tensors[name].dtype.name for name in (*part.inputs, *part.outputs)}
    return "fp16" if "float16" in names else "fp32"
