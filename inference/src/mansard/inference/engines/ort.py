"""ONNX Runtime, with its providers for CPUs, for CUDA, and for TensorRT.

https://onnxruntime.ai/docs/api/python/api_summary.html
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

from mansard.core.errors import MansardError, MeasurementError
from mansard.core.formats.onnx import read_nodes
from mansard.core.onnx_runtime import (
    FATAL_ONLY,
    explained,
    import_runtime,
    make_session,
    one_line,
)
from mansard.core.records import Launching, LayerTime
from mansard.core.storage.files import check_descriptors
from mansard.core.storage.leftovers import temporary_folder
from mansard.core.text import printable
from mansard.inference.engines.engine import EngineProbe, absent_engine
from mansard.inference.engines.ort_fusions import TracedNode, read_profile, trace
from mansard.inference.plan import NetworkTrial

# The providers that a trial may name, and what ONNX Runtime calls them.
PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
}
# One distribution for each way to build it; all are imported as onnxruntime.
_DISTRIBUTIONS = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-qnn")
_OPTIMISED, _WEIGHTS = "optimised.onnx", "weights"
_BFLOAT16 = 16  # onnx.TensorProto.DataType
_FIX = "install onnxruntime (onnxruntime-gpu for a GPU); 'mansard doctor' says what is there"
# A network of one Identity on one number, to see whether a provider can be used.
_IDENTITY = bytes.fromhex(
    "08083a370a100a017812017922084964656e746974791201675a0f0a0178120a0a080801"
    "12040a020801620f0a0179120a0a08080112040a02080142040a00100d"
)
Options: TypeAlias = dict[str, str]


class OnnxRuntime:
    """The engine "ort"."""

    name = "ort"
    package = "onnxruntime"

    def probe(self) -> EngineProbe:
        """Which providers can run a network here: those in the build that a session accepts."""
        try:
            onnxruntime = import_runtime()
        except ImportError as error:
            reason = f"onnxruntime cannot be imported: {printable(str(error))}"
            return absent_engine(self.name, PROVIDERS, reason)
        built = onnxruntime.get_available_providers()
        absent = {
            name: _why_absent(path, built) for name, path in PROVIDERS.items() if name != "cpu"
        }
        absent = {name: reason for name, reason in absent.items() if reason}
        return EngineProbe(
            engine=self.name,
            version=str(onnxruntime.__version__),
            versions=_versions(),
            providers=tuple(name for name in PROVIDERS if name not in absent),
            absent=absent,
        )

    def load(
        self,
        trial: NetworkTrial,
        folder: Path,
        inputs: Mapping[str, Any],
        n_threads: int,
        *,
        is_optimised: bool = True,
    ) -> LoadedOrtNetwork:
        """Load the network; raises MeasurementError where it cannot run.

        ``is_optimised``: False runs each node by itself, as the file has them.
        """
        path = folder / trial.file
        return LoadedOrtNetwork(trial, path, inputs, n_threads, is_optimised=is_optimised)


ORT = OnnxRuntime()


class LoadedOrtNetwork:
    """A session with its inputs and outputs bound."""

    def __init__(
        self,
        trial: NetworkTrial,
        path: Path,
        inputs: Mapping[str, Any],
        n_threads: int,
        *,
        is_optimised: bool = True,
    ) -> None:
        self._level = "ORT_ENABLE_ALL" if is_optimised else "ORT_DISABLE_ALL"
        self._trial, self._path, self._inputs, self._n_threads = trial, path, inputs, n_threads
        self._device = "cpu" if trial.provider == "cpu" else "cuda"
        self.launching: Launching = "call" if trial.provider == "cpu" else "enqueue"
        self._profiled = contextlib.ExitStack()  # holds the folder of the profile
        self.options: dict[str, str] = {"graph_optimization_level": "all"}
        if trial.provider != "cpu":
            is_allowed = allows_tf32(trial, str(import_runtime().__version__))
            self.options["tf32"] = "allowed" if is_allowed else "off"
        if trial.with_graph and trial.provider != "cpu":
            self._load_with_graph()
        else:
            self._bound = self._open()

    def call(self) -> None:
        """Run the network once, until its outputs are there."""
        try:
            self._bound.call()
        except Exception as error:
            raise explained(error, self._path) from error

    def feed(self, inputs: Mapping[str, Any]) -> None:
        """Bind ``inputs`` for the next calls; other inputs stay as they are."""
        with one_line(self._path):
            self._bound.feed(inputs)

    def fetch(self) -> dict[str, Any]:
        """Every output of the last call by its name, as arrays that the caller may keep."""
        with one_line(self._path):
            return self._bound.fetch()

    def outputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs for ``inputs``, by name."""
        with one_line(self._path):
            self._bound.feed(inputs)
            self._bound.run()
            return self._bound.fetch()

    def start_profiling(self) -> None:
        """Reload with profiling on; the present session is closed first to free its memory."""
        self._drop_session()
        folder = self._profiled.enter_context(temporary_folder())
        try:
            self._bound = self._open(folder, saves_graph=True)
        except MeasurementError:  # it cannot save what a provider compiled, as TensorRT's does
            self._bound = self._open(folder)

    def end_profiling(self, counted: Sequence[bool]) -> tuple[tuple[LayerTime, ...], str]:
        """The layers in the calls that are ``counted``, or none and the reason."""
        with one_line(self._path):
            profile = Path(self._bound.session.end_profiling())
        traced = self._trace(profile.parent / _OPTIMISED)
        return read_profile(profile.read_bytes(), counted, traced)

    def close(self) -> None:
        """Drop the session, which frees its memory."""
        self._drop_session()
        self._profiled.close()

    def _drop_session(self) -> None:
        self.__dict__.pop("_bound", None)

    def _trace(self, optimised: Path) -> tuple[TracedNode, ...]:
        """The nodes of the optimised graph, traced to the network's; empty where none was saved."""
        if not optimised.exists():
            return ()
        try:
            return trace(read_nodes(self._path), read_nodes(optimised))
        except (MansardError, OSError, ValueError) as error:
            check_descriptors(error, optimised)
            return ()

    def _load_with_graph(self) -> None:
        """Load with a CUDA graph, or without where ONNX Runtime cannot make one."""
        try:
            self._bound = self._open(with_graph=True)
            self.call()  # the first call captures it
        except MeasurementError as error:
            self.options["cuda_graph"] = f"not possible: {error.what}"
            self._bound = self._open()
        else:
            self.options["cuda_graph"] = "on"
            self.launching = "graph"

    def _open(
        self,
        profile_folder: Path | None = None,
        *,
        saves_graph: bool = False,
        with_graph: bool = False,
    ) -> _BoundSession:
        with one_line(self._path):
            options = _options(self._trial, self._n_threads, profile_folder, self._level)
            if saves_graph and profile_folder is not None:
                _save_graph(options, profile_folder)
            version = str(import_runtime().__version__)
            providers = provider_options(self._trial, version, with_graph=with_graph)
            session = make_session(str(self._path), options, providers)
            return _BoundSession(
                session, self._inputs, self._device, self._trial, with_graph=with_graph
            )


class _BoundSession:
    """A session with its inputs and outputs bound; ``call`` makes the copies that are asked for."""

    def __init__(
        self,
        session: Any,
        inputs: Mapping[str, Any],
        device: str,
        trial: NetworkTrial,
        *,
        with_graph: bool,
    ) -> None:
        OrtValue = import_runtime().OrtValue  # noqa: N806 - a class
        self.session, self._device = session, device
        self._value_of = OrtValue.ortvalue_from_numpy
        self._binding = binding = session.io_binding()
        # On a CPU the value is the array: where inputs are copied in, one of its own is needed.
        copies_in = trial.copies in {"in", "both"}
        as_bits = {spec.name for spec in trial.input_specs if spec.type_name == "bfloat16"}
        self._is_in_place = device == "cpu" and not copies_in and not as_bits
        self._values = {
            name: _of_bits(array, device)
            if name in as_bits
            else self._value_of(array.copy() if copies_in else array, device, 0)
            for name, array in inputs.items()
        }
        for name, value in self._values.items():
            binding.bind_ortvalue_input(name, value)
        for output in session.get_outputs():
            if with_graph:  # it writes to the same addresses every time
                value = OrtValue.ortvalue_from_shape_and_type(
                    _fixed_shape(output), _numpy_type(output.type), device, 0
                )
                binding.bind_ortvalue_output(output.name, value)
            else:
                binding.bind_output(output.name, device)
        self._arrays = dict(inputs)
        self.call: Callable[[], None] = {
            "none": self.run,
            "in": self._copy_and_run,
            "out": self._run_and_copy,
            "both": self._copy_run_and_copy,
        }[trial.copies]

    def feed(self, inputs: Mapping[str, Any]) -> None:
        """Bind ``inputs``: on a CPU in place, else as copies on the device."""
        for name, array in inputs.items():
            if self._is_in_place:
                self._values[name] = self._value_of(array)
                self._binding.bind_ortvalue_input(name, self._values[name])
            else:
                self._values[name].update_inplace(array)

    def fetch(self) -> dict[str, Any]:
        """The outputs in host memory; on a CPU without a copy: the next call makes new ones."""
        names = [output.name for output in self.session.get_outputs()]
        values = self._binding.get_outputs()
        if self._device != "cpu" or not all(value.is_tensor() for value in values):
            return dict(zip(names, self._binding.copy_outputs_to_cpu(), strict=True))
        for name in names:
            self._binding.bind_output(name, "cpu")
        return {name: value.numpy() for name, value in zip(names, values, strict=True)}

    def run(self) -> None:
        """Run the session on the bound inputs."""
        self.session.run_with_iobinding(self._binding)

    def _copy_and_run(self) -> None:
        for name, value in self._values.items():
            value.update_inplace(self._arrays[name])
        self.run()

    def _run_and_copy(self) -> None:
        self.run()
        self._binding.copy_outputs_to_cpu()

    def _copy_run_and_copy(self) -> None:
        self._copy_and_run()
        self._binding.copy_outputs_to_cpu()


def _of_bits(array: Any, device: str) -> Any:
    """A value of bfloat16 from ``array``, which holds its bits."""
    OrtValue = import_runtime().OrtValue  # noqa: N806 - a class
    value = OrtValue.ortvalue_from_shape_and_type(list(array.shape), _BFLOAT16, device, 0)
    value.update_inplace(array)
    return value


def _options(trial: NetworkTrial, n_threads: int, profile_folder: Path | None, level: str) -> Any:
    onnxruntime = import_runtime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = n_threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = FATAL_ONLY
    spins = "1" if trial.waiting == "spin" else "0"
    options.add_session_config_entry("session.intra_op.allow_spinning", spins)
    if profile_folder is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile_folder / "profile")
    return options


def _save_graph(options: Any, folder: Path) -> None:
    """Save the optimised graph; its weights go to a file that is discarded."""
    (folder / _WEIGHTS).symlink_to(os.devnull)
    options.optimized_model_filepath = str(folder / _OPTIMISED)
    key = "session.optimized_model_external_initializers"
    options.add_session_config_entry(f"{key}_file_name", _WEIGHTS)
    options.add_session_config_entry(f"{key}_min_size_in_bytes", "0")


_TF32_SINCE = (1, 18)  # the option of CUDA's provider; versions before it refuse what they lack


def allows_tf32(trial: NetworkTrial, version: str) -> bool:
    """Whether products of fp32 may use TF32, as ONNX Runtime by itself lets them from Ampere on.

    Not where fp32 is requested of CUDA's provider, as of TensorRT's builder. TensorRT's provider
    has no option for it (github.com/microsoft/onnxruntime/issues/26029).
    """
    has_option = trial.provider == "cuda" and _has_tf32_option(version)
    return trial.precision != "fp32" or not has_option


def _has_tf32_option(version: str) -> bool:
    """``use_tf32``, of matrix products and convolutions (pull requests 19357 and 19426)."""
    return tuple(map(int, version.split(".")[:2])) >= _TF32_SINCE


def provider_options(
    trial: NetworkTrial, version: str, *, with_graph: bool
) -> list[str | tuple[str, Options]]:
    """The providers with their options, in order of preference; ``version``: of ONNX Runtime."""
    cpu = PROVIDERS["cpu"]
    if trial.provider == "cpu":
        return [cpu]
    cuda = {"device_id": "0"}
    if _has_tf32_option(version):
        cuda["use_tf32"] = str(int(trial.precision != "fp32"))
    if trial.provider == "cuda":
        return [(PROVIDERS["cuda"], {**cuda, "enable_cuda_graph": str(int(with_graph))}), cpu]
    options = {
        "device_id": "0",
        "trt_fp16_enable": str(int(trial.precision == "fp16")),
        "trt_int8_enable": str(int(trial.precision == "int8")),
        "trt_cuda_graph_enable": str(int(with_graph)),
    }
    return [(PROVIDERS["tensorrt"], options), (PROVIDERS["cuda"], cuda), cpu]


def _fixed_shape(output: Any) -> list[int]:
    if not all(isinstance(size, int) for size in output.shape):
        raise MeasurementError(f"the shape of output {output.name!r} depends on data")
    return list(output.shape)


def _numpy_type(type_name: str) -> Any:
    """The NumPy type of what ONNX Runtime calls ``tensor(float)`` and the like."""
    import numpy as np

    inner = type_name.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(inner, inner)).type


def _why_absent(path: str, built: list[str]) -> str:
    """Why the provider cannot be used; empty where it can."""
    onnxruntime = import_runtime()
    if path not in built:
        return "this build of ONNX Runtime does not have it"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    try:
        with one_line():
            make_session(_IDENTITY, options, [path])
    except MansardError as error:
        return error.what
    return ""


def _versions() -> dict[str, str]:
    onnxruntime = import_runtime()
    versions = {"onnxruntime": str(onnxruntime.__version__)}
    for name in _DISTRIBUTIONS[1:]:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
