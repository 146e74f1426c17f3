"""The engine "trtexec": for machines that have TensorRT's program and not its Python bindings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mansard.core.errors import MeasurementError
from mansard.core.records import EngineBuild
from mansard.core.storage.documents import read_document
from mansard.inference.engines.engine import Built, EngineProbe, LoadedNetwork, absent_engine
from mansard.inference.engines.trtexec.building import build
from mansard.inference.engines.trtexec.program import find_program
from mansard.inference.engines.trtexec.running import TrtexecNetwork
from mansard.inference.plan import BuildTrial, NetworkTrial

_PROVIDER = "tensorrt"


class Trtexec:
    """The engine "trtexec". Only a build or a run tells whether there is a GPU."""

    name = "trtexec"
    package = "trtexec"

    def probe(self) -> EngineProbe:
        """Its version, where the program is found."""
        try:
            version = find_program().version.text
        except MeasurementError as error:
            return absent_engine(self.name, (_PROVIDER,), str(error))
        return EngineProbe(
            engine=self.name,
            version=version,
            versions={self.package: version},
            providers=(_PROVIDER,),
            absent={},
        )

    def build(
        self,
        trial: BuildTrial,
        folder: Path,
        into: Path,
        announce: Callable[[str, float], None],
    ) -> Built:
        """Write the engine file of ``trial``; raises MeasurementError where it cannot be built."""
        return build(find_program(), trial, folder, into, announce)

    def load(
        self,
        trial: NetworkTrial,
        folder: Path,  # noqa: ARG002
        inputs: Mapping[str, Any],  # noqa: ARG002
        n_threads: int,  # noqa: ARG002
    ) -> LoadedNetwork:
        """Raises MeasurementError: only the program calls a network, and it shows no outputs."""
        raise MeasurementError(
            "trtexec gives no way to call a network", where=trial.model, fix="use another engine"
        )

    def open(self, trial: NetworkTrial, folder: Path, inputs: Mapping[str, Any]) -> TrtexecNetwork:
        """What runs of trtexec need; the engine file is read by each of them."""
        built = read_document(folder / f"{trial.engine_file}.json", EngineBuild)
        return TrtexecNetwork(find_program(), trial, folder / trial.engine_file, built, inputs)


TRTEXEC = Trtexec()
