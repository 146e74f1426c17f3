"""The networks that engine files are built from: those that are run, or others that stand for them.

Others are needed where one file serves several batches, so that its batch is open; and where the
builder finds the ranges of int8 itself, from samples and a network of fp32. Weights, names of nodes
and model hash are the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from mansard.api.engine_builds import BuildOptions, serving
from mansard.core.errors import UsageError

if TYPE_CHECKING:
    from mansard.inference.engines.engine import EngineProbe
    from mansard.inference.plan import BuildTrial
    from mansard.inference.preparing.prepare import PreparedNetwork
    from mansard.inference.preparing.samples import RandomSamples, Samples

_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")


class BuildSources:
    """Those of a sweep. ``others``: by the name of their ONNX file, once they were asked for."""

    def __init__(self, options: BuildOptions, dims: Mapping[str, int]) -> None:
        self._options, self._dims = options, dims
        self.others: dict[str, PreparedNetwork] = {}
        self.samples: dict[str, Samples | RandomSamples] = {}  # to calibrate with, by their file

    def trials(
        self, networks: Sequence[PreparedNetwork], probe: EngineProbe, device: str
    ) -> dict[str, BuildTrial]:
        """The engine file of each network, by the name of its ONNX file.

        ``device``: that the files are for, in words. Raises UsageError where they cannot be built
        as is asked for.
        """
        return {network.file: self._trial(network, networks, probe, device) for network in networks}

    def _trial(
        self,
        network: PreparedNetwork,
        networks: Sequence[PreparedNetwork],
        probe: EngineProbe,
        device: str,
    ) -> BuildTrial:
        from mansard.inference.preparing.parts import PreparedPart

        options, samples = self._options, network.recipe.calibration
        settings, is_calibrated = options.settings(), False
        if samples is not None:
            name = _UNSAFE.sub("-", samples.file.name).strip("-.") or "data"
            settings = msgspec.structs.replace(settings, dataset=name)
            is_calibrated = _calibrates(probe) and not isinstance(network, PreparedPart)
        how: dict[str, Any] = {
            "engine": probe.engine,
            "version": str(probe.version),
            "device": device,
            "precision": network.precision,
        }
        if is_calibrated and samples is not None:
            self.samples[samples.file.file] = samples
            settings = msgspec.structs.replace(
                settings,
                calibration_file=samples.file.file,
                calibration_hash=samples.file.file_hash,
            )
        if options.is_dynamic:
            if isinstance(network, PreparedPart):
                raise UsageError("a layer has the shapes of its batch", fix="leave --dynamic out")
            same = _at_every_batch(network, networks)
            opened = self._other(same[len(same) // 2], is_fp32=is_calibrated, is_open=True)
            settings = msgspec.structs.replace(settings, ranges=serving(same, opened))
            shared = set.intersection(*(set(each.dimensions.items()) for each in same))
            opened = msgspec.structs.replace(opened, dimensions=dict(sorted(shared)))
            how["batches"] = [each.batch for each in same]
            return opened.build_trial(settings=settings, **how)
        if is_calibrated:
            network = self._other(network, is_fp32=True, is_open=False)
        return network.build_trial(settings=settings, **how)

    def _other(self, network: PreparedNetwork, *, is_fp32: bool, is_open: bool) -> PreparedNetwork:
        """``network`` before it was converted to int8, with its batch left open, or both."""
        from mansard.inference.planning import SEED
        from mansard.inference.preparing.prepare import Calibrating, prepare

        recipe = network.recipe
        is_converted = recipe.conversion is not None and not is_fp32
        made = prepare(
            recipe.source,
            batch=network.batch,
            dims=self._dims,
            inputs=recipe.inputs,
            seed=SEED,
            precision=network.precision if is_converted else None,
            calibrating=Calibrating("tensorrt", lambda _: recipe.calibration),
            is_batch_open=is_open,
        )
        return self.others.setdefault(made.file, made)


def _calibrates(probe: EngineProbe) -> bool:
    """Whether the engine finds the ranges of int8 itself; trtexec cannot be given samples."""
    from mansard.inference.engines.tensorrt.versions import calibrates

    return probe.engine == "tensorrt" and calibrates(str(probe.version))


def _at_every_batch(
    network: PreparedNetwork, networks: Sequence[PreparedNetwork]
) -> list[PreparedNetwork]:
    """``network`` at all of its batches, the smallest first."""
    found = [
        each
        for each in networks
        if (each.model_hash, each.recipe.source, each.precision)
        == (network.model_hash, network.recipe.source, network.precision)
    ]
    return sorted(found, key=lambda each: each.batch or 0)
