"""Accuracy of networks: the samples that they are fed with, and the plan that measures it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.api.measurements import ModePlan
from mansard.api.reporter import Reporter
from mansard.core.errors import UsageError

if TYPE_CHECKING:
    from mansard.core.records import Gpu, MachineIdentity
    from mansard.inference.accuracy.plan import AccuracyTrial
    from mansard.inference.engines.engine import EngineProbe
    from mansard.inference.plan import BuildTrial, InputSpec
    from mansard.inference.preparing.datasets import DataSet
    from mansard.inference.preparing.prepare import PreparedNetwork
    from mansard.inference.preparing.preprocessing import Preprocessing
    from mansard.inference.preparing.quantising import Form
    from mansard.inference.preparing.samples import SampleChoice

RANDOM = "random"  # instead of a data set to calibrate with


class AccuracySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What accuracy is measured with, and what int8 is calibrated with."""

    data: Path | None = None  # labelled samples: an .npz, or a folder of images
    labels: Path | None = None  # of ``data``; None: those that it has itself
    preprocess: str | None = None  # of images; None: "imagenet"
    n_samples: int | None = None  # of ``data``, evenly spread; None: all
    calibration: str | None = None  # samples for int8, or "random"; None: some of ``data``


class DataSets:
    """The data sets of ``settings``, each looked at once; raises what is wrong with them.

    ``precisions``: of the networks, where they are not those of the files.
    """

    def __init__(self, settings: AccuracySettings, precisions: Sequence[str]) -> None:
        from mansard.inference.planning import SEED
        from mansard.inference.preparing.datasets import find_dataset
        from mansard.inference.preparing.preprocessing import parse_preprocessing

        if settings.data is None:
            of_data: dict[str, object] = {
                "--labels": settings.labels,
                "--samples": settings.n_samples,
            }
            if settings.calibration in {None, RANDOM}:
                of_data["--preprocess"] = settings.preprocess
            for option, value in of_data.items():
                if value is not None:
                    raise UsageError(f"{option} is about --data", fix="give --data as well")
        if settings.calibration is not None and "int8" not in precisions:
            raise UsageError("--calibration is about --precision int8", fix="leave it out")
        if settings.data is not None and settings.calibration == RANDOM:
            raise UsageError(
                "int8 with random ranges has no accuracy",
                fix="leave --data or --calibration random out",
            )
        self._seed, self._n_samples = SEED, settings.n_samples
        self._preprocessing: Preprocessing = parse_preprocessing(settings.preprocess)
        self._data: DataSet | None = None
        self._calibration: DataSet | None = None
        self._is_random = settings.calibration == RANDOM
        if settings.data is not None:
            self._data = find_dataset(settings.data, settings.labels)
        if settings.calibration is not None and not self._is_random:
            self._calibration = find_dataset(Path(settings.calibration))

    def calibrate(self, specs: tuple[InputSpec, ...]) -> SampleChoice | None:
        """What a network of these inputs is calibrated with; None: nothing was given."""
        from mansard.inference.preparing.samples import random_samples, samples_for

        if self._is_random:
            return random_samples(specs, self._seed)
        found = self._calibration or self._data
        if found is None:
            return None
        return samples_for(found, specs, self._preprocessing, is_for_calibration=True)

    def samples(self, network: PreparedNetwork) -> SampleChoice | None:
        """What the accuracy of ``network`` is measured with; None: there is no data set.

        Raises UsageError for samples that do not fit it, and for random weights.
        """
        from mansard.inference.preparing.samples import samples_for

        if self._data is None:
            return None
        if network.files.is_drawn:
            raise UsageError(
                f"the weights of {network.model} are random, so it has no accuracy",
                fix="leave --data out, or give a file with trained weights",
            )
        return samples_for(
            self._data,
            network.input_specs,
            self._preprocessing,
            most=self._n_samples,
            n_classes=network.class_output()[1],
        )


def int8_form(engine: str, provider: str) -> Form:
    """Which graph of int8 an engine runs."""
    is_tensorrt = engine in {"tensorrt", "trtexec"} or provider == "tensorrt"
    return "tensorrt" if is_tensorrt else "operators"


def plan_accuracy(
    spec: AccuracyTrial,
    machine: MachineIdentity,
    probe: EngineProbe,
    runs: Path,
    *,
    gpu: Gpu | None,
    files: Path,
    write: Callable[[], object],
) -> ModePlan:
    """A run of ``spec`` alone, whose files ``write`` writes into ``files``.

    It is found again whatever else is asked for, and in whichever modes: the machine is left as it
    is.
    """
    from mansard.inference.accuracy.plan import AccuracyPlan
    from mansard.inference.planning import any_mode, make_plan
    from mansard.measuring.runner import missing_trials

    plan = make_plan(AccuracyPlan, machine, any_mode(machine), (spec,), probe, gpu, profile="brief")
    n_missing = len(missing_trials(plan, runs))
    title = f"accuracy of {spec.network.model} in {spec.network.precision}"
    return ModePlan(plan, n_missing, files, write, of=title, is_bounded=False)


def note_calibration(
    networks: Sequence[PreparedNetwork], settings: AccuracySettings, reporter: Reporter
) -> None:
    """Say what int8 networks are calibrated with, once each."""
    found = [network.calibration for network in networks]
    more = ""
    if settings.calibration is None and settings.data is not None:
        more = ", of those that accuracy is measured with; --calibration gives others"
    for words in dict.fromkeys(each.in_words for each in found if each is not None):
        reporter.note(f"int8 is calibrated with {words}{more}")


def note_preprocessing(
    networks: Sequence[tuple[PreparedNetwork, SampleChoice]], reporter: Reporter
) -> None:
    """Say what is done to the pixels of images, once for each network."""
    lines = (
        f"images for {network.model}: {samples.file.preprocessing}"
        for network, samples in networks
        if samples.how is not None
    )
    for line in dict.fromkeys(lines):
        reporter.note(line)


def calibration_words(network: PreparedNetwork, build: BuildTrial | None) -> str:
    """What the ranges of ``network`` come from; ``build``: of its engine file, where it has one."""
    found = network.calibration
    if found is not None and build is not None and build.settings.calibration_file:
        return f"entropy calibration of TensorRT, {found.in_words}"
    return network.calibration_words
