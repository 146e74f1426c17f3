"""Samples that networks are fed with: for their accuracy, and to calibrate int8."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.core.errors import UsageError
from mansard.inference.plan import SEED
from mansard.sweeps.reporter import Reporter

if TYPE_CHECKING:
    from mansard.inference.plan import BuildTrial, InputSpec
    from mansard.inference.preparing.datasets import DataSet
    from mansard.inference.preparing.networks import PreparedNetwork
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
        from mansard.inference.preparing import find_dataset, parse_preprocessing

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
        from mansard.inference.preparing import random_samples, samples_for

        if self._is_random:
            return random_samples(specs, self._seed)
        data = self._calibration or self._data
        if data is None:
            return None
        return samples_for(data, specs, self._preprocessing, is_for_calibration=True)

    def samples(self, network: PreparedNetwork) -> SampleChoice | None:
        """What the accuracy of ``network`` is measured with; None: there is no data set.

        Raises UsageError for samples that do not fit it, and for random weights.
        """
        from mansard.inference.preparing import samples_for

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


def note_calibration(
    networks: Sequence[PreparedNetwork], settings: AccuracySettings, reporter: Reporter
) -> None:
    """Say what int8 networks are calibrated with, once each."""
    calibrations = [network.calibration for network in networks]
    more = ""
    if settings.calibration is None and settings.data is not None:
        more = ", of those that accuracy is measured with; --calibration gives others"
    for words in dict.fromkeys(samples.in_words for samples in calibrations if samples is not None):
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
    samples = network.calibration
    if samples is not None and build is not None and build.settings.calibration_file:
        return f"entropy calibration of TensorRT, {samples.in_words}"
    return network.calibration_words
