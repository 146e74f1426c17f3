"""The engine "tensorrt": builds engine files and runs them, through TensorRT's Python bindings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mansard.core.errors import MeasurementError
from mansard.core.records import EngineBuild
from mansard.core.storage.documents import read_document
from mansard.inference.engines.engine import Built, EngineProbe, absent_engine
from mansard.inference.engines.tensorrt.building import build
from mansard.inference.engines.tensorrt.cuda_calls import Cuda
from mansard.inference.engines.tensorrt.running import LoadedTensorrtNetwork
from mansard.inference.engines.tensorrt.versions import load_bindings, read_version
from mansard.inference.plan import BuildTrial, NetworkTrial

_PROVIDER = "tensorrt"


class TensorRt:
    """The engine "tensorrt". Its one provider is the GPU; a DLA core is a setting of the build."""

    name = "tensorrt"
    package = "tensorrt"

    def probe(self) -> EngineProbe:
        """Its version wherever it can be imported; a provider where there is a GPU as well."""
        try:
            version = read_version(load_bindings()).text
        except MeasurementError as error:
            return absent_engine(self.name, (_PROVIDER,), str(error))
        cuda = Cuda()
        versions, reason = {self.package: version}, ""
        try:
            versions |= cuda.versions()
            reason = "" if cuda.n_devices() else "CUDA finds no GPU"
        except MeasurementError as error:
            reason = f"there is no GPU that CUDA can use: {error.what}"
        return EngineProbe(
            engine=self.name,
            version=version,
            versions=versions,
            providers=None if reason else (_PROVIDER,),
            absent={_PROVIDER: reason} if reason else {},
            unknown={"providers": reason} if reason else {},
        )

    def build(
        self,
        trial: BuildTrial,
        folder: Path,
        into: Path,
        announce: Callable[[str, float], None],
    ) -> Built:
        """Write the engine file of ``trial``; raises MeasurementError where it cannot be built."""
        return build(trial, folder, into, announce, Cuda())

    def load(
        self,
        trial: NetworkTrial,
        folder: Path,
        inputs: Mapping[str, Any],
        n_threads: int,  # noqa: ARG002
    ) -> LoadedTensorrtNetwork:
        """Load the engine file; raises MeasurementError where it cannot run."""
        path = folder / trial.engine_file
        built = read_document(folder / f"{trial.engine_file}.json", EngineBuild)
        return LoadedTensorrtNetwork(trial, path, built, inputs)


TENSORRT = TensorRt()
