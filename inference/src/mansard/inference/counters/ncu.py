"""The program Nsight Compute: its path, the metrics it has for a chip, command line and errors.

https://docs.nvidia.com/nsight-compute/NsightComputeCli/
"""

from __future__ import annotations

import ctypes
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mansard.core.errors import DeniedError, InputError, MansardError, MeasurementError, UsageError
from mansard.core.formats.ncu import MESSAGE
from mansard.core.processes.programs import Finished, run_program
from mansard.core.text import printable

# CUDA Driver API, CUdevice_attribute
_MAJOR, _MINOR = 75, 76


def compute_capability() -> int | None:
    """87 is 8.7; None where no driver answers, or no card is there."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0):
        return None
    for value, attribute in ((major, _MAJOR), (minor, _MINOR)):
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device):
            return None
    return 10 * major.value + minor.value


_INSTALLED = ("opt/nvidia/nsight-compute/*/ncu", "usr/local/cuda*/bin/ncu")
_ANSWER_S = 120.0  # the list of a chip's metrics takes seconds, on a Nano longer
_MOST_BYTES = 64 << 20  # of such a list: 0.8 MB
_VERSION = re.compile(r"^Version (\d+(?:\.\d+)+)", re.MULTILINE)
_METRIC = re.compile(r"^\"?([a-z0-9]+__[a-z0-9_]+)", re.MULTILINE)
_INSTALL = "install Nsight Compute (nsight-compute of the CUDA toolkit or of JetPack)"
_CHIP = re.compile(r"\b[a-z]+\d+[a-z0-9]*\b")
_MESSAGES = re.compile(r"^==.*$", re.MULTILINE)


@dataclass(frozen=True)
class Ncu:
    """The program, and its version."""

    path: Path
    version: str


def find_ncu(wanted: Path | None = None, root: Path = Path("/")) -> Ncu:
    """``wanted``, that on PATH, or the newest that is installed below ``root``.

    Raises UsageError where there is none, MeasurementError where it does not say its version.
    """
    if wanted is not None and not wanted.is_file():
        raise UsageError("there is no such program", where=str(wanted), fix=_INSTALL)
    on_path = shutil.which("ncu")
    program = wanted or (Path(on_path) if on_path else _newest(root))
    if program is None:
        raise UsageError(
            "ncu is neither on PATH nor where NVIDIA installs it",
            fix=f"{_INSTALL}, or name it with --ncu",
        )
    program = program.absolute()  # a name without a folder would be looked up on PATH
    answer = _ask(program, "--version")
    version = _VERSION.search(answer.text)
    if version is None:
        raise MeasurementError("does not say its version", where=str(program), fix=_INSTALL)
    return Ncu(program, version[1])


def _newest(root: Path) -> Path | None:
    programs = [path for pattern in _INSTALLED for path in root.glob(pattern) if path.is_file()]
    return max(programs, key=_version_in_path, default=None)


def _version_in_path(path: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", str(path))))


def listed_metrics(ncu: Ncu, chip: str) -> frozenset[str]:
    """The base names of the metrics that ``ncu`` has for a chip; raises UsageError for another."""
    answer = _ask(ncu.path, "--query-metrics", "--chips", chip)
    names = frozenset(_METRIC.findall(answer.text))
    if names:
        return names
    chips = _CHIP.findall(_MESSAGES.sub("", _ask(ncu.path, "--list-chips").text))
    if chip not in chips:
        raise UsageError(
            f"Nsight Compute {ncu.version} does not know the chip {chip!r}",
            where=str(ncu.path),
            fix=f"name one with --chip: {', '.join(chips)}" if chips else "install a newer one",
        )
    raise MeasurementError(
        f"lists no metrics of {chip}: {_last_line(answer)}", where=str(ncu.path), fix=_INSTALL
    )


def _ask(path: Path, *question: str) -> Finished:
    return run_program(
        [path, *question], timeout_s=_ANSWER_S, max_bytes=_MOST_BYTES, error=MeasurementError
    )


def _last_line(answer: Finished) -> str:
    """The last line that was printed."""
    lines = (answer.output + b"\n" + answer.complaints).decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it says nothing")


def command_line(
    ncu: Ncu, program: Sequence[str], *, metrics: Sequence[str], cache_control: str
) -> list[str]:
    """``ncu``, counting what ``program`` launches between cuProfilerStart and cuProfilerStop.

    Clocks are left as the power mode has them: by default ncu would lock them to a base clock.
    Each kernel is replayed until all metrics are read.
    """
    return [
        str(ncu.path),
        *("--csv", "--page", "raw", "--print-units", "base"),
        *("--profile-from-start", "off", "--nvtx"),
        *("--clock-control", "none", "--cache-control", cache_control),
        *("--replay-mode", "kernel", "--target-processes", "all"),
        *("--metrics", ",".join(metrics)),
        *program,
    ]


_IMPORT_S = 600.0  # a report of a gigabyte is read in minutes
_MOST_PAGE_BYTES = 256 << 20


def raw_page(ncu: Ncu, report: Path) -> bytes:
    """The raw page of a report as CSV; raises InputError where ``ncu`` cannot read it."""
    question = ["--import", str(report.absolute()), "--csv", "--page", "raw"]
    answer = run_program(
        [ncu.path, *question, "--print-units", "base"],
        timeout_s=_IMPORT_S,
        max_bytes=_MOST_PAGE_BYTES,
        error=MeasurementError,
    )
    if answer.exit_code == 0 and answer.output.strip():
        return answer.output
    text = (answer.output + b"\n" + answer.complaints).decode("utf-8", "replace")
    errors = [match[2] for match in MESSAGE.finditer(text) if match[1] == "ERROR"]
    message = printable(errors[0] if errors else _last_line(answer))
    raise InputError(
        f"Nsight Compute {ncu.version} cannot read it: {message}",
        where=str(report),
        fix="a newer release may have written it: name that one's ncu with --ncu",
    )


_AS_ROOT = 'run it as root: sudo -E "$(which mansard)" ncu run'
_NOT_ALLOWED = (DeniedError, "this user may not read the GPU's counters", _AS_ROOT)
_NO_DRIVER = (
    MeasurementError,
    "Nsight Compute finds no CUDA driver",
    "load NVIDIA's driver, and run this on the machine itself, not in a container",
)
_OTHER = "name another Nsight Compute with --ncu: that of the driver's CUDA"
# A part of a message, what it means, and the one thing to do about it.
_KNOWN: tuple[tuple[str, tuple[type[MansardError], str, str]], ...] = (
    ("ERR_NVGPUCTRPERM", _NOT_ALLOWED),
    ("does not have permission to access NVIDIA GPU Performance Counters", _NOT_ALLOWED),
    ("failed to connect to the CUDA driver", _NO_DRIVER),
    ("Driver could not be loaded", _NO_DRIVER),
    (
        "Insufficient driver version",
        (MeasurementError, "the driver is too old for this Nsight Compute", _OTHER),
    ),
    (
        "driver is not compatible with Nsight Compute",
        (MeasurementError, "the driver and this Nsight Compute are incompatible", _OTHER),
    ),
    (  # seen in sandboxes (gVisor), and of a program that is older than the card
        "Failed to initialize the profiler: LibraryNotLoaded",
        (
            MeasurementError,
            "the driver's library for counters does not load",
            "run it on the machine itself and not in a sandbox, or name a newer one with --ncu",
        ),
    ),
    (
        "Failed to find metric",
        (MeasurementError, "Nsight Compute does not know a metric that it lists", _OTHER),
    ),
)


_PROGRAM_FAILED = "application returned an error code"


def refusal_of(messages: Sequence[str]) -> MansardError | None:
    """Why ``ncu`` cannot count here, by its lines ``==ERROR== …``; None: no such line.

    A failure of the profiled program is no such reason.
    """
    text = "\n".join(messages)
    for part, (error, what, fix) in _KNOWN:
        if part in text:
            return error(what, where="ncu", fix=fix)
    matches = [match for line in messages if (match := MESSAGE.match(line)) is not None]
    said = [
        match[2] for match in matches if match[1] == "ERROR" and _PROGRAM_FAILED not in match[2]
    ]
    if said:  # some begin with a line that ends with a colon
        what = " ".join(said[:2]) if said[0].endswith(":") else said[0]
        return MeasurementError(what, where="ncu", fix="run 'ncu' by hand to see more")
    return None


def is_without_kernels(messages: Sequence[str]) -> bool:
    """Whether ``ncu`` reports that no kernel ran on the GPU."""
    return any("No kernels were profiled" in line for line in messages)


def has_failed_program(messages: Sequence[str]) -> bool:
    """Whether ``ncu`` reports that the profiled program failed."""
    return any(_PROGRAM_FAILED in line for line in messages)
