"""Which nodes of a network each layer of an engine runs.

Names come first: those in a layer's name or metadata that nodes of the file have. Where most names
are those of another export of the network, and for layers without such a name, shapes decide: a
product is matched by its numbers of weights and of results, a pool by what it reads and writes,
each in the order in which the data flows. Layers without any description are matched by the order
of their operators alone, and marked as a guess. Epilogues (activations, additions, quantisers)
belong to the last layer that they read from. No node is given to two layers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from types import MappingProxyType
from typing import Literal

from mansard.analytics.models.layers.engine import EngineLayer, depths
from mansard.analytics.models.layers.network import NetworkGraph, NetworkNode

# "traced": the engine ran a network with labelled nodes. "graph": what lies between named nodes.
# "order": of operators alone, a guess. "none": no node.
JoinedBy = Literal["traced", "names", "graph", "shapes", "order", "none"]

_LEAST_NAMED = 0.5  # of the names in an engine; fewer are chance, as Conv_0 in any export
_MOST_CONTRADICTED = 0.1  # of the named products may have other shapes than their layer
_MOST_PAIRS = 20_000  # layers × nodes of one shape whose data flow is followed; then a guess
_MOST_REGIONS = 1_000  # without named ends; an engine has a few
_MOST_SIBLINGS = 6  # products that read one tensor, of which an engine may fuse some
_SUFFIXES = re.compile(r"(?:_bn)?_nchwc$|_token_\d+$|_myl\d+_\d+$| \[profile \d+\]$")
_PREFIXES = re.compile(r"^(?:fused |InsertedPrecisionFreeCast_)")
# What TensorRT calls layers that are neither products nor pools, and their operators of ONNX.
_OPERATORS = MappingProxyType(
    {
        "Shuffle": frozenset({"Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze"}),
        "Slice": frozenset({"Slice", "Pad"}),
        "Padding": frozenset({"Pad"}),
        "Concatenation": frozenset({"Concat"}),
        "Resize": frozenset({"Resize", "Upsample"}),
        "Gather": frozenset({"Gather"}),
        "TopK": frozenset({"TopK", "ArgMax"}),
    }
)
_WORD = re.compile(r"[A-Za-z]+")


@dataclass
class Join:
    """The nodes of one layer; ``remark``: what is doubtful, or why there is none."""

    nodes: tuple[int, ...] = ()
    by: JoinedBy = "none"
    remark: str = ""


@dataclass
class _Claims:
    """Which layer has which node, as the steps find them."""

    layers: Sequence[EngineLayer]
    graph: NetworkGraph
    owner: dict[int, int] = field(default_factory=dict)  # of a node, the position of its layer
    joins: list[Join] = field(default_factory=list)

    @cached_property
    def writer(self) -> Mapping[str, int]:
        """The position of the layer that writes each tensor of the engine."""
        layers = enumerate(self.layers)
        return {tensor.name: at for at, layer in layers for tensor in layer.writes}

    def give(self, at: int, nodes: Iterable[int], by: JoinedBy, remark: str = "") -> None:
        """Give the layer at ``at`` those of ``nodes`` that no other has."""
        new = [node for node in nodes if node not in self.owner]
        join = self.joins[at]
        self.owner |= dict.fromkeys(new, at)
        join.nodes = tuple(sorted({*join.nodes, *new}))
        if new and join.by == "none":
            join.by = by
        if remark and remark not in join.remark:
            join.remark = "; ".join(filter(None, (join.remark, remark)))

    def is_open(self, at: int) -> bool:
        """Whether the layer at ``at`` is one of nodes, and has none yet."""
        return self.layers[at].kind in {"layer", "region"} and not self.joins[at].nodes

    def free(self, wanted: Callable[[NetworkNode], bool]) -> list[NetworkNode]:
        """The nodes that no layer has."""
        return [n for n in self.graph.nodes if n.index not in self.owner and wanted(n)]


def join_layers_to_nodes(layers: Sequence[EngineLayer], graph: NetworkGraph) -> tuple[Join, ...]:
    """The nodes of each of ``layers``, which are in the order in which they ran."""
    claims = _Claims(layers, graph, joins=[Join() for _ in layers])
    if any(layer.is_traced for layer in layers):
        _by_tracing(claims)
    else:
        _by_names(claims)
        _by_shapes(claims)
        _by_order(claims)
        _others(claims)
        _regions(claims)
        _epilogues(claims)
    for layer, join in zip(layers, claims.joins, strict=True):
        if not join.nodes and not join.remark:
            join.remark = _why_none(layer)
    return tuple(claims.joins)


def _why_none(layer: EngineLayer) -> str:
    if layer.kind == "layer" and layer.op_class == "quantiser":
        return "a quantiser that the network's file does not have"
    if layer.kind == "reformat":
        return "a reformat, of no node"
    if layer.kind == "engine":
        return "the engine's own: shapes, constants or a view"
    if layer.kind == "region" and not layer.parts:
        return "a kernel of Myelin: its name says no node, and no shape tells"
    return "no name, shape or order tells which nodes it runs"


def _by_tracing(claims: _Claims) -> None:
    for at, layer in enumerate(claims.layers):
        known = [node for node in layer.nodes or () if node in claims.graph.by_index]
        shared = [node for node in known if node in claims.owner]
        if known:
            # Pieces of one layer of the engine run the same nodes: their work counts once.
            first = claims.owner[shared[0]] if len(shared) == len(known) else None
            remark = "" if first is None else f"a piece of {claims.layers[first].name}"
            claims.give(at, known, "traced", remark)


def nodes_by_name(graph: NetworkGraph) -> dict[str, int]:
    """Nodes by name, and by the tensor that they write where that is no other's name."""
    seen: dict[str, list[int]] = {}
    for node in graph.nodes:
        for name in {node.name, *node.writes} - {""}:
            seen.setdefault(name, []).append(node.index)
    by_name = {name: nodes[0] for name, nodes in seen.items() if len(nodes) == 1}
    return by_name | {
        node.name: node.index
        for node in graph.nodes
        if node.name and sum(graph.by_index[i].name == node.name for i in seen[node.name]) == 1
    }


def _by_names(claims: _Claims) -> None:
    named = _named(claims)
    for at, nodes in named.items():
        if claims.layers[at].kind == "layer":
            is_shared = any(node in claims.owner for node in nodes)
            remark = "also names nodes of other layers" if is_shared else ""
            claims.give(at, nodes, "names", remark)
    for at in named:
        if claims.layers[at].kind == "layer":
            claims.give(at, _behind(claims, at), "graph")
    for at, nodes in named.items():
        if claims.layers[at].kind == "region":
            inside = claims.graph.between(nodes[:1], nodes[-1:]) if len(nodes) > 1 else set(nodes)
            claims.give(at, sorted({*inside, *nodes}), "graph")


def _named(claims: _Claims) -> dict[int, list[int]]:
    """The nodes that the names in each layer call; none where names are of another export."""
    nodes = nodes_by_name(claims.graph)
    named: dict[int, list[int]] = {}
    n_parts = n_known = 0
    for at, layer in enumerate(claims.layers):
        n_parts += len(layer.parts)
        for part in layer.parts:
            plain = _PREFIXES.sub("", _SUFFIXES.sub("", part))
            node = nodes.get(part, nodes.get(plain))
            if node is not None:
                n_known += 1
                named.setdefault(at, []).append(node)
    is_chance = n_known < _LEAST_NAMED * n_parts
    is_contradicted = _n_contradicted(claims, named) > _MOST_CONTRADICTED * len(named)
    return {} if is_chance or is_contradicted else named


def _behind(claims: _Claims, at: int) -> list[int]:
    """What leads to the nodes of a layer that is named after its result, as ONNX Runtime does.

    Up to the nodes of other layers; nothing where its product is named.
    """
    graph, nodes = claims.graph, claims.joins[at].nodes
    if claims.layers[at].op_class == "other" or any(
        graph.by_index[i].op_class == claims.layers[at].op_class for i in nodes
    ):
        return []
    ahead, reached = list(nodes), set(nodes)
    while ahead:
        for tensor in graph.by_index[ahead.pop()].reads:
            writer = graph.writer.get(tensor)
            if writer is not None and writer not in reached and writer not in claims.owner:
                reached.add(writer)
                ahead.append(writer)
    return sorted(reached)


def _n_contradicted(claims: _Claims, named: dict[int, list[int]]) -> int:
    """Layers whose described shapes are not those of the products that their names call."""
    wrong = 0
    for at, nodes in named.items():
        signature = _signature(claims.layers[at])
        products = [n for i in nodes if (n := claims.graph.by_index[i]).op_class == "product"]
        if signature is not None and len(products) == 1 and claims.layers[at].kind == "layer":
            wrong += signature[0] == "product" and _signature_of(products[0]) != signature
    return wrong


_Signature = tuple[str, int, int]


def _signature(layer: EngineLayer) -> _Signature | None:
    """What tells a layer by its shapes; None where it is not described."""
    if layer.op_class == "product":
        if layer.n_weights and layer.n_written:
            return "product", layer.n_weights, layer.n_written
    elif layer.op_class in {"pool", "softmax", "quantiser"} and layer.n_read and layer.n_written:
        return layer.op_class, layer.n_read, layer.n_written
    return None


def _signature_of(node: NetworkNode) -> _Signature:
    if node.op_class == "product":
        return "product", node.n_weights, node.n_written
    return node.op_class, node.n_read, node.n_written


def _by_shapes(claims: _Claims) -> None:
    """Layers and nodes with the same numbers, the one that comes first in the data flow first."""
    depth = depths(claims.layers)
    of_layers: dict[_Signature, list[int]] = {}
    for at, layer in enumerate(claims.layers):
        signature = _signature(layer)
        if signature is not None and claims.is_open(at):
            of_layers.setdefault(signature, []).append(at)
    of_nodes: dict[_Signature, list[NetworkNode]] = {}
    for node in claims.free(lambda n: n.op_class != "other"):
        of_nodes.setdefault(_signature_of(node), []).append(node)
    uncertain = []
    # Products first: what is beside them is told by whose result it reads.
    for signature in sorted(of_layers, key=lambda key: key[0] != "product"):
        places = sorted(of_layers[signature], key=lambda at: (depth[at], at))
        if not _in_order(claims, places, of_nodes.get(signature, ())):
            uncertain.append((places, of_nodes.get(signature, ())))
    _siblings(claims)
    for places, alike in uncertain:
        open_places = [at for at in places if claims.is_open(at)]
        if not _in_order(claims, open_places, alike):
            _by_flow(claims, open_places, alike)


def _in_order(claims: _Claims, places: Sequence[int], alike: Sequence[NetworkNode]) -> bool:
    """Give each layer one node, in the data flow, if there are as many; whether there are."""
    left = [n for n in alike if n.index not in claims.owner]
    left.sort(key=lambda n: claims.graph.depth[n.index])
    if len(places) != len(left):
        return False
    for at, node in zip(places, left, strict=True):
        claims.give(at, [node.index], "shapes")
    return True


def _by_flow(claims: _Claims, places: Sequence[int], alike: Sequence[NetworkNode]) -> None:
    """Layers that are more or fewer than their nodes: by the layer they read from, else a guess.

    An engine runs some quantisers in the layer before them, and one for all that read its result.
    """
    left = [n for n in alike if n.index not in claims.owner]
    left.sort(key=lambda n: claims.graph.depth[n.index])
    remark = f"a guess: {len(places)} layers and {len(left)} nodes have these shapes"
    is_traceable = len(places) * len(left) <= _MOST_PAIRS
    for at in places:
        if not left:
            break
        source = _source(claims, at) if is_traceable else None
        after = [n for n in left if source is not None and _latest(claims, n) == source]
        if after and len({n.reads for n in after}) == 1:
            claims.give(at, [n.index for n in after], "shapes")
        else:
            after = left[:1]
            claims.give(at, [after[0].index], "shapes", remark)
        left = [n for n in left if n not in after]


def _source(claims: _Claims, at: int) -> int | None:
    """The layer with nodes whose result the layer at ``at`` reads, through reformats."""
    seen = {at}
    while claims.layers[at].reads:
        before = claims.writer.get(claims.layers[at].reads[0].name)
        if before is None or before in seen:
            return None
        if claims.joins[before].nodes:
            return before
        seen.add(before)
        at = before
    return None


def _latest(claims: _Claims, node: NetworkNode) -> int | None:
    """The last of the layers whose nodes ``node`` follows from, with none of a layer between."""
    ahead, reached, owners = [node.index], {node.index}, set[int]()
    while ahead:
        for tensor in claims.graph.by_index[ahead.pop()].reads:
            writer = claims.graph.writer.get(tensor)
            if writer is None or writer in reached:
                continue
            reached.add(writer)
            if writer in claims.owner:
                owners.add(claims.owner[writer])
            else:
                ahead.append(writer)
    return max(owners, default=None)


def _siblings(claims: _Claims) -> None:
    """Products that read one tensor and that an engine runs as one, side by side."""
    groups: dict[tuple[str, ...], list[NetworkNode]] = {}
    for node in claims.free(lambda n: n.op_class == "product" and n.n_weights > 0):
        groups.setdefault(node.reads, []).append(node)
    of_sums: dict[_Signature, list[tuple[NetworkNode, ...]]] = {}
    for some in _subsets(groups.values()):
        sums = "product", sum(n.n_weights for n in some), sum(n.n_written for n in some)
        of_sums.setdefault(sums, []).append(some)
    for at, layer in enumerate(claims.layers):
        signature = _signature(layer)
        if signature is None or not claims.is_open(at):
            continue
        for some in of_sums.get(signature, ()):
            if all(n.index not in claims.owner for n in some):
                claims.give(at, [n.index for n in some], "shapes", "products side by side")
                break


def _subsets(groups: Iterable[list[NetworkNode]]) -> Iterator[tuple[NetworkNode, ...]]:
    for group in groups:
        for size in range(2, min(len(group), _MOST_SIBLINGS) + 1):
            yield from combinations(group[:_MOST_SIBLINGS], size)


_GUESS = "a guess: by the order of operators"


def _by_order(claims: _Claims) -> None:
    """Layers without a description, each operator in its order."""
    for op_class in ("product", "pool", "softmax", "quantiser"):
        places = [
            at
            for at, layer in enumerate(claims.layers)
            if claims.is_open(at)
            and layer.op_class == op_class
            and _signature(layer) is None
            and (layer.kind == "layer" or not layer.parts)
            and not (layer.n_read and layer.n_written)
        ]
        nodes = claims.free(lambda n, wanted=op_class: n.op_class == wanted)  # type: ignore[misc]
        remark = _GUESS
        if len(places) != len(nodes):
            remark += f", of which the engine has {len(places)} and the network {len(nodes)}"
        for at, node in zip(places, nodes, strict=False):
            claims.give(at, [node.index], "order", remark)


def _others(claims: _Claims) -> None:
    """Layers that only move or change elements: by their operator, and their number of results."""
    left: dict[str, list[NetworkNode]] = {}
    for node in claims.free(lambda n: n.op_class != "product"):
        left.setdefault(node.op_type.casefold(), []).append(node)
    for at, layer in enumerate(claims.layers):
        if not claims.is_open(at) or layer.op_class == "product":
            continue
        words = [
            word.casefold()
            for part in (*layer.parts, layer.name)
            for word in _WORD.findall(part.rpartition("/")[2])
        ]
        words += [name.casefold() for name in sorted(_OPERATORS.get(layer.op_type, ()))]
        alike = [
            node
            for word in dict.fromkeys(words)
            for node in left.get(word, ())
            if layer.n_written is None or node.n_written == layer.n_written
        ]
        if alike:
            node = min(alike, key=lambda n: claims.graph.place[n.index])
            by: JoinedBy = "order" if layer.n_written is None else "shapes"
            claims.give(at, [node.index], by, _GUESS if by == "order" else "")
            left[node.op_type.casefold()].remove(node)


def _regions(claims: _Claims) -> None:
    """A region whose ends are not named: all that lies between its neighbours' nodes."""
    # A kernel of Myelin without parts is one of several of a region.
    regions = [
        at
        for at, layer in enumerate(claims.layers)
        if claims.is_open(at) and layer.kind == "region" and layer.parts
    ]
    for at in regions[:_MOST_REGIONS]:
        before = [i for i, owner in claims.owner.items() if owner < at]
        after = [i for i, owner in claims.owner.items() if owner > at]
        place = claims.graph.place
        low = max((place[i] for i in before), default=-1)
        high = min((place[i] for i in after), default=len(place))
        inside = [n.index for n in claims.graph.nodes[low + 1 : high]]
        claims.give(at, inside, "graph", "a guess: all between the layers around it")


def _epilogues(claims: _Claims) -> None:
    """Give what is left to the last layer that it reads from, else to the first that reads it."""
    graph = claims.graph
    for node in claims.free(lambda n: n.op_class != "product"):
        owners = [
            claims.owner[writer]
            for tensor in node.reads
            if (writer := graph.writer.get(tensor)) in claims.owner
        ]
        if owners:
            claims.give(max(owners), [node.index], "graph")
    for node in reversed(claims.free(lambda n: n.op_class != "product")):
        owners = [
            claims.owner[reader]
            for tensor in node.writes
            for reader in graph.readers.get(tensor, ())
            if reader in claims.owner
        ]
        if owners:
            claims.give(min(owners), [node.index], "graph")
