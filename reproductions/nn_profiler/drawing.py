"""Mappings that are drawn at random, as NN-Profiler draws them.

https://github.com/Varatheepan/NN-Profiler, MappingDBGenerator.py, NetworkMappingGenerator.py: sets
of networks without one twice; of each set some mappings, in which some networks run whole and the
others are split; whole networks on a device by the devices' priorities, the stages of a split one
on different devices by the same.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np

from mansard.core.errors import UsageError
from mansard.core.text import listed
from mansard.inference.multi.mappings import MappedNetwork, Mapping, StagePlace
from mansard.inference.plan import SEED
from mansard.inference.preparing import cut_choices, prepare

_MOST_TRIES = 100  # to draw a mapping that is not there yet


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """How mappings are drawn."""

    n_mappings: int  # fewer come where there are not so many different ones
    # Of a mapping, from and to: as many mappings of each number; None: all networks.
    n_networks: tuple[int, int] | None = None
    per_set: int = 20  # mappings of the same networks
    priorities: tuple[float, ...] = ()  # of the devices, in their order; empty: all alike
    most_split: int | None = None  # networks of a mapping that are split; None: any number
    has_gpu_only: bool = False  # the first mapping of each set has all on the GPU
    has_single: bool = False  # before all: each network alone, on each device
    seed: int = 0


def draw(
    cuts: Dict[str, Sequence[int]], devices: Sequence[str], drawing: Drawing
) -> tuple[Mapping, ...]:
    """Mappings of networks on ``devices``; the same seed, the same.

    ``cuts``: of each network, the nodes behind which it can be cut. Raises UsageError for numbers
    that cannot be.
    """
    models = list(cuts)
    _check(models, cuts, devices, drawing)
    weights = np.array(drawing.priorities or [1.0] * len(devices))
    drawn = _Draws(cuts, devices, weights / weights.sum(), np.random.default_rng(drawing.seed))
    found = []
    if drawing.has_single:
        places = [StagePlace(device=device) for device in devices]
        found += [
            Mapping(networks=(MappedNetwork(model=model, stages=(place,)),))
            for model in models
            for place in places
        ]
    low, high = drawing.n_networks or (len(models), len(models))
    for number, n_networks in enumerate(range(low, high + 1)):
        n_left = _share(drawing.n_mappings, high + 1 - low, number)
        while n_left > 0:
            n_of_set = min(drawing.per_set, n_left)
            found += drawn.of_set(drawn.networks(models, n_networks), n_of_set, drawing)
            n_left -= n_of_set
    return tuple(found)


def seed_of_mode(seed: int, mode: str) -> int:
    """A seed for one power mode: each mode has other mappings."""
    return zlib.crc32(f"{seed} {mode}".encode())


def cut_nodes(model: str, dims: Dict[str, int]) -> tuple[int, ...]:
    """The nodes behind which a network can be cut; raises what is wrong with it."""
    source = Path(model) if model.endswith(".onnx") else model
    whole = prepare(source, seed=SEED, dims=dims)
    with tempfile.TemporaryDirectory() as folder:
        return tuple(choice.node for choice in cut_choices(whole, Path(folder)))


def mappings_json(mappings: Sequence[Mapping]) -> bytes:
    """A file for ``mansard multi run --mapping``; no network is in a mapping twice.

    The last stage ends where the network does, whatever number it has.
    """
    return msgspec.json.format(
        msgspec.json.encode(
            [
                {each.model: _devices(each.stages) for each in mapping.networks}
                for mapping in mappings
            ]
        )
    )


def _devices(stages: Sequence[StagePlace]) -> dict[str, str]:
    """The device of each stage by its last node."""
    ends = [stage.end for stage in stages if stage.end is not None]
    last = ends[-1] + 1 if ends else 0
    return {str(end): stage.device for end, stage in zip((*ends, last), stages, strict=True)}


class _Draws:
    def __init__(
        self,
        cuts: Dict[str, Sequence[int]],
        devices: Sequence[str],
        shares: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        self._cuts, self._devices, self._shares, self._rng = cuts, list(devices), shares, rng

    def networks(self, models: Sequence[str], n_networks: int) -> list[str]:
        """So many of the networks, each once."""
        return [str(name) for name in self._rng.choice(models, n_networks, replace=False)]

    def of_set(self, networks: Sequence[str], n_mappings: int, drawing: Drawing) -> list[Mapping]:
        """Different mappings of the same networks, fewer of them whole first."""
        found = dict[Mapping, None]()
        if drawing.has_gpu_only:
            gpu = (StagePlace(device="gpu"),)
            whole = tuple(MappedNetwork(model=model, stages=gpu) for model in networks)
            found[Mapping(networks=whole)] = None
        for n_split in _numbers_split(len(networks), n_mappings - len(found), drawing.most_split):
            drawn = (self._mapping(networks, n_split) for _ in range(_MOST_TRIES))
            found |= dict.fromkeys(islice((each for each in drawn if each not in found), 1))
        return list(found)

    def _mapping(self, networks: Sequence[str], n_split: int) -> Mapping:
        can_be = [name for name in networks if self._cuts[name] and len(self._devices) > 1]
        split = set(self.networks(can_be, min(n_split, len(can_be)))) if can_be else set()
        return Mapping(
            networks=tuple(
                MappedNetwork(model=name, stages=self._stages(name, is_split=name in split))
                for name in networks
            )
        )

    def _stages(self, name: str, *, is_split: bool) -> tuple[StagePlace, ...]:
        ends: list[int | None] = [None]
        if is_split:
            cuts = self._cuts[name]
            most = min(len(self._devices) - 1, len(cuts))
            places = self._rng.choice(len(cuts), self._rng.integers(1, most + 1), replace=False)
            ends = [*(cuts[at] for at in sorted(places)), None]
        devices = self._rng.choice(self._devices, len(ends), replace=False, p=self._shares)
        return tuple(
            StagePlace(device=str(device), end=end)
            for device, end in zip(devices, ends, strict=True)
        )


def _numbers_split(n_networks: int, n_mappings: int, most: int | None) -> list[int]:
    """How many networks are split in each mapping: all numbers, or those up to ``most``, alike.

    Of the rest one each to the greatest numbers; with ``most`` all of it to none split.
    """
    numbers = range(min(n_networks if most is None else most, n_networks), -1, -1)
    each, rest = divmod(n_mappings, len(numbers))
    if most is None:
        return [number for at, number in enumerate(numbers) for _ in range(each + (at < rest))]
    return [number for number in numbers for _ in range(each)] + [0] * rest


def _share(n_all: int, n_parts: int, number: int) -> int:
    """Of ``n_all`` alike for each part, the rest to the last ones."""
    return n_all // n_parts + (number >= n_parts - n_all % n_parts)


def _check(
    models: Sequence[str],
    cuts: Dict[str, Sequence[int]],
    devices: Sequence[str],
    drawing: Drawing,
) -> None:
    low, high = drawing.n_networks or (len(models), len(models))
    uncut = [name for name, each in cuts.items() if not each]
    if drawing.n_mappings < 1 or drawing.per_set < 1:
        what, fix = "no mapping is to be drawn", "draw 1 or more"
    elif not 1 <= low <= high <= len(models):
        what = f"a mapping cannot have {low} to {high} of {len(models)} networks"
        fix = "name more networks, or fewer of a mapping"
    elif not devices or len(set(devices)) < len(devices):
        what, fix = "mappings are drawn without devices, or with one twice", "--devices gpu,cpu"
    elif drawing.priorities and len(drawing.priorities) != len(devices):
        what = f"{len(drawing.priorities)} priorities for {len(devices)} devices"
        fix = "give one for each"
    elif any(not each > 0 for each in drawing.priorities):
        what, fix = "a priority is not above 0", "leave the device out"
    elif drawing.has_gpu_only and "gpu" not in devices:
        what, fix = "all on the GPU is asked for, and it is no device", "--devices gpu,cpu"
    elif drawing.most_split and len(devices) < 2:
        what, fix = "a network is split among two devices or more", "--devices gpu,cpu"
    elif drawing.most_split and len(uncut) == len(models):
        what, fix = f"{listed(uncut)} have no cut", "draw with --most-split 0"
    else:
        return
    raise UsageError(what, fix=fix)
