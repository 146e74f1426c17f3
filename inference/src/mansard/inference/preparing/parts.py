"""The layers or stages of a prepared network, each prepared as a network of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from msgspec.structs import replace

from mansard.core.errors import MansardError, ModelError
from mansard.core.files import storage_errors, write_atomic
from mansard.core.hashing import content_hash
from mansard.core.records import LayerScore, NetworkPart
from mansard.estimator import is_functional
from mansard.inference.preparing.cutting import (
    CutGraph,
    Part,
    layer_parts,
    read_graph,
    stage_parts,
)
from mansard.inference.preparing.guessing import find_readers, guess
from mansard.inference.preparing.prepare import PreparedNetwork, in_words
from mansard.inference.preparing.prepare import write as write_network

_CUT_VERSION = 1  # of what a file of a part is made of
_QUANTISED = frozenset({"int8", "fp8"})
_SCALING = frozenset({"QuantizeLinear", "DequantizeLinear"})


class PreparedPart(PreparedNetwork, frozen=True, kw_only=True):
    """A part of ``whole``, whose file holds what it is cut out of."""

    whole: PreparedNetwork
    types: str  # the precision of its file: that of the whole, but for int8 without scales
    places: tuple[int, ...]  # of its nodes in the graph of the whole's file


class Cut(NamedTuple):
    """The parts of a network, and what of it is in none and why, a line each."""

    parts: tuple[PreparedPart, ...]
    left_out: tuple[str, ...]


def cut(whole: PreparedNetwork, folder: Path, kind: Literal["layer", "stage"]) -> Cut:
    """The layers or stages of ``whole``, which is written into ``folder`` where it lacks it.

    Layers are the groups of nodes that the estimator takes for one kernel, where they work or move
    something; stages lie between the places where one tensor alone lives. A part that cannot be
    run alone, as its inputs cannot be made, is left out. Raises ModelError and StorageError.
    """
    graph = _read(whole, folder)
    rows = {row.index: row for row in whole.score.layers if not row.scope}
    found = (layer_parts if kind == "layer" else stage_parts)(graph, whole.score.layers)
    parts: list[PreparedPart] = []
    left_out: list[str] = []
    for number, places in enumerate(found):
        own = [rows[label] for at in places for label in graph.labels[at] if label in rows]
        name = f"{whole.model} {kind} {number}"
        described = NetworkPart(
            whole=whole.model,
            whole_hash=whole.model_hash,
            kind=kind,
            number=number,
            n_parts=len(found),
            nodes=tuple(row.index for row in own if is_functional(row)),
            op_types=tuple(row.op_type for row in own if is_functional(row)),
        )
        try:
            parts.append(_prepared(whole, graph, graph.part(places), described, name, own))
        except MansardError as error:
            left_out.append(f"{name} is not run alone: {error}")
    return Cut(tuple(parts), tuple(left_out))


def write(network: PreparedNetwork, folder: Path) -> tuple[str, ...]:
    """Write what ``folder`` lacks of the files of a network or a part; the names of all it needs.

    Raises ModelError, StorageError, and InputError for a file that has changed since it was looked
    at.
    """
    if not isinstance(network, PreparedPart):
        return write_network(network, folder)
    whole = network.whole
    if not (folder / network.file).exists():
        graph = _read(whole, folder)
        model = graph.model_of(graph.part(network.places), network.model)
        with storage_errors(folder / network.file):
            write_atomic(folder / network.file, model.SerializeToString(deterministic=True))
    beside = {*whole.files.linked, whole.files.weights, whole.inputs_file}
    return (network.file, *sorted(filter(None, beside)))


def _read(whole: PreparedNetwork, folder: Path) -> CutGraph:
    if not (folder / whole.file).exists():
        write_network(whole, folder)
    return read_graph(folder / whole.file)


def _prepared(
    whole: PreparedNetwork,
    graph: CutGraph,
    part: Part,
    described: NetworkPart,
    name: str,
    rows: list[LayerScore],
) -> PreparedPart:
    if not part.outputs:
        raise ModelError("nothing reads what it writes")
    given = {spec.name: spec for spec in whole.input_specs}
    readers = find_readers(graph.estimated)
    specs = tuple(
        given.get(each) or guess(graph.tensors[each], readers, graph.tensors)
        for each in part.inputs
    )
    digest = content_hash([whole.file_hash, part.places, _CUT_VERSION])
    model_hash = content_hash([whole.model_hash, part.labels])
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
    )


def _types(whole: PreparedNetwork, graph: CutGraph, part: Part) -> str:
    """The precision of a part's own numbers: of an int8 network, only some parts have scales."""
    if whole.precision not in _QUANTISED or graph.op_types(part) & _SCALING:
        return whole.precision
    names = {graph.tensors[name].dtype.name for name in (*part.inputs, *part.outputs)}
    return "fp16" if "float16" in names else "fp32"
