"""Which network runs where: mappings as a person names them."""

from __future__ import annotations

from collections import Counter

import msgspec

from mansard.core.errors import UsageError
from mansard.inference.multi.plan import MOST_LOADABLES, is_dla


class StagePlace(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of a network."""

    device: str = ""  # "gpu", "dla0", "cpu", "cpu:0-3"; "": the GPU where there is one, else "cpu"
    end: int | None = None  # its last node, by LayerScore.index; None: the network's


class MappedNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """A network in stages; the same may be in a mapping twice."""

    model: str  # an ONNX file, or the name of a network of the zoo
    stages: tuple[StagePlace, ...] = (StagePlace(),)


class Mapping(msgspec.Struct, frozen=True, kw_only=True):
    """Networks that run at once."""

    networks: tuple[MappedNetwork, ...]
    # In step: (network, stage) in the order in which they begin, each once. Empty: not in step.
    turns: tuple[tuple[int, int], ...] = ()
    has_rounds: bool = True  # as that of MultiTrial
    beside: str = ""  # what else runs meanwhile, as a row calls it: "a solver"


def with_device(mapping: Mapping, device: str) -> Mapping:
    """``mapping`` with ``device`` where it names none."""
    networks = [
        msgspec.structs.replace(
            network,
            stages=tuple(
                stage if stage.device else msgspec.structs.replace(stage, device=device)
                for stage in network.stages
            ),
        )
        for network in mapping.networks
    ]
    return msgspec.structs.replace(mapping, networks=tuple(networks))


def check_mapping(mapping: Mapping) -> None:
    """Raises UsageError where nothing could run it: no network, a full DLA, turns that circle."""
    if not mapping.networks or not all(network.stages for network in mapping.networks):
        raise UsageError("a mapping has no network or no stage", fix="name a network")
    devices = Counter(stage.device for network in mapping.networks for stage in network.stages)
    for device, n_stages in devices.items():
        if is_dla(device) and n_stages > MOST_LOADABLES:
            raise UsageError(
                f"{n_stages} stages on {device}: a DLA core holds {MOST_LOADABLES} loadables",
                fix="map some of them to another device",
            )
    steps = [
        (number, stage)
        for number, network in enumerate(mapping.networks)
        for stage in range(len(network.stages))
    ]
    if mapping.turns and sorted(mapping.turns) != steps:
        raise UsageError(
            "the turns of a mapping are not its stages, each once", fix="list each of them once"
        )
    for number in range(len(mapping.networks)) if mapping.turns else ():
        own = [stage for network, stage in mapping.turns if network == number]
        if own != sorted(own):
            raise UsageError(
                f"the stages of network {number} take their turns in another order than they run",
                fix="list them in the order in which they run",
            )
