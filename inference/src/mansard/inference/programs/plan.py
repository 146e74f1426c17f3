"""The plan of a run of a program: from a command to a trial, its name and the hash of its files.

Environment variables that are known to change a program's speed are part of its identity: without
them, a run with one thread would answer for a run with four. Sources: the documents of OpenMP,
OpenBLAS, oneMKL, Numba, CUDA, NCCL, cuDNN, TensorRT, ONNX Runtime, PyTorch, TensorFlow, XLA, JAX,
Python, glibc and the dynamic linker.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import msgspec

from mansard.core.errors import UsageError
from mansard.core.hashing import ID_CHARACTERS, content_hash, file_hash, stream_hash
from mansard.core.records import Schema
from mansard.core.text import is_utf8, masked_words, printable
from mansard.inference.programs.dependencies import update_by_content
from mansard.inference.programs.execution import cannot_run
from mansard.measuring.identity import read_environment, secret_hash
from mansard.measuring.plan import PlannedTrial, RunPlan
from mansard.measuring.protocol import PROTOCOLS, Profile, Protocol

_LONGEST_NAME = 60
_WHOLE_FILE_BYTES = 64 << 20  # of a larger file: its size, first and last part
_PART_BYTES = 1 << 20
_MOST_HASHED_BYTES = 1 << 30  # of all files that are read whole, together
_SHOWN_SUFFIXES = ("_THREADS", "_VISIBLE_DEVICES")  # of variables that are part of a program's name
_MOST_WORDS = 1000  # of a shell's line, and of a list
_KNOWN = frozenset(
    {
        *("VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS", "TBB_NUM_THREADS", "ARMPL_NUM_THREADS"),
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_BIND_NOW", "GLIBC_TUNABLES"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONOPTIMIZE", "PYTHONMALLOC", "PYTHONHASHSEED"),
        *("PYTHON_GIL", "PYTHON_JIT", "VIRTUAL_ENV", "CONDA_PREFIX", "TOKENIZERS_PARALLELISM"),
        *("JAVA_TOOL_OPTIONS", "NODE_OPTIONS", "GOMAXPROCS", "GOGC", "GOMEMLIMIT"),
        "JULIA_NUM_THREADS",
    }
)
_PREFIXES = (
    *("OMP_", "GOMP_", "KMP_", "OPENBLAS_", "GOTO_", "MKL_", "BLIS_", "DNNL_", "ONEDNN_"),
    *("NUMBA_", "NUMEXPR_", "CUDA_", "CUBLAS_", "CUDNN_", "CUPY_", "NCCL_", "NVIDIA_"),
    *("TRT_", "TENSORRT_", "ORT_", "OV_", "OPENVINO_", "PYTORCH_", "TORCH_", "TORCHINDUCTOR_"),
    *("TF_ENABLE_", "TF_DISABLE_", "TF_NUM_", "TF_XLA_", "TF_GPU_", "TF_CUDNN_", "TF_FORCE_"),
    *("XLA_", "JAX_", "TVM_", "GGML_", "LLAMA_", "VLLM_", "MALLOC_", "KINETO_"),
)
_CAPS: MappingProxyType[Profile, tuple[int, float]] = MappingProxyType(
    {"brief": (1, 10.0), "quick": (1, 60.0), "full": (3, 600.0)}
)
_N_FOR_INTERVAL = 6  # below six values there is no 95 % interval: ``sampling.interval_rank``


class ProgramTrial(PlannedTrial, frozen=True, kw_only=True):
    """One program to be run; the fields are those of ``ProgramRun``.

    ``command`` is masked, because plans are stored; what is run is passed beside the plan.
    """

    workload: str
    command: tuple[str, ...]
    folder: str
    program_hash: str
    metric_pattern: str | None
    environment: dict[str, str]

    @property
    def title(self) -> str:
        """What is shown while it runs."""
        return self.workload


class ProgramPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of a program.

    In its protocol, ``n_blocks_min`` is the least number of runs; ``n_accepted_min`` the number
    from which an interval of the wall time exists; ``stream_interval`` how narrow this is to be;
    ``time_cap_s`` the time after which the program is not started again.
    """

    schema: ClassVar[Schema] = Schema("program-plan", 2)
    kind: ClassVar[str] = "mansard.inference.programs.trial:PROGRAMS"

    trials: tuple[ProgramTrial, ...]
    depends: tuple[str, ...] = ()  # files and folders that are part of ``program_hash``


def program_protocol(profile: Profile, n_runs: int | None = None) -> Protocol:
    """How often a program runs: until its time is known, or exactly ``n_runs`` times."""
    n_least, time_cap_s = _CAPS[profile] if n_runs is None else (n_runs, 0.0)
    return msgspec.structs.replace(
        PROTOCOLS[profile],
        n_blocks_min=n_least,
        n_accepted_min=_N_FOR_INTERVAL,
        time_cap_s=time_cap_s,
    )


def make_program_trial(
    command: Sequence[str],
    name: str | None = None,
    metric: str | None = None,
    variables: Sequence[str] = (),
    depends: Sequence[Path] = (),
) -> ProgramTrial:
    """The trial of a command in the working directory; its default name is the command.

    Raises ProgramFailed where there is no such program, UsageError.
    """
    if not command or not command[0]:
        raise UsageError("no command is given", fix="mansard measure -- python3 my_program.py")
    folder = _working_directory()
    for word in (*command, folder):
        if "\0" in word or not is_utf8(word):
            raise UsageError(
                f"{word!r} is not text in UTF-8, and could not be kept",
                fix="rename it, or call it from a script",
            )
    _check_program(command[0])
    environment, shown = read_environment(variables, is_known), masked_words(command)
    return ProgramTrial(
        workload=printable(name or _short_name(shown, environment, variables)),
        command=shown,
        folder=folder,
        program_hash=hash_program(command, environment, depends),
        metric_pattern=metric,
        environment=environment,
        unknown={} if metric is not None else {"metric_pattern": "none was asked for"},
    )


def hash_program(
    command: Sequence[str], environment: Mapping[str, str], depends: Sequence[Path] = ()
) -> str:
    """A hash of the program's file, and of the files that arguments and standard input name.

    Also of its environment, of secrets among its words, which no plan or row contains, and of what
    it ``depends`` on. Raises UsageError where that cannot be read.
    """
    digest = hashlib.sha256(content_hash(environment).encode() if environment else b"")
    program = shutil.which(command[0])
    named = [path for word in command[1:] for path in _named_files(word)]
    modules = [path for flag, name in pairwise(command) if flag == "-m" for path in _module(name)]
    n_bytes = 0
    standard_input = "/proc/self/fd/0"
    paths = (program, _virtual_environment(program), *named, *modules, standard_input)
    for path in dict.fromkeys(paths):
        if path is not None and os.path.isfile(path):  # noqa: PTH113 - a long word is no error
            with contextlib.suppress(OSError):
                n_bytes += Path(path).stat().st_size
            digest.update(_digest(Path(path), is_whole=n_bytes <= _MOST_HASHED_BYTES).encode())
    for word, shown in zip(command, masked_words(command), strict=True):
        if word != shown:
            digest.update(secret_hash(word).encode())
    for dependency in depends:
        update_by_content(digest, dependency)
    return digest.hexdigest()[:ID_CHARACTERS]


def _named_files(word: str) -> Iterator[str]:
    """The parts of a word that may name a file: ``FILE``, ``--config=FILE``, ``-cFILE``, ``@FILE``,
    a list of them, and the words of a shell's line.
    """
    if any(character.isspace() for character in word):
        try:
            words = shlex.split(word)[:_MOST_WORDS]
        except ValueError:  # a quote without its end
            words = word.split()[:_MOST_WORDS]
        yield word
        for inner in words:
            if inner != word:
                yield from _named_files(inner)
        return
    parts = [word, word.partition("=")[2], word.rpartition("=")[2]]
    if word.startswith("-") and not word.startswith("--"):
        parts.append(word[2:])
    for part in filter(None, parts):
        for piece in (part, *part.split(",")[:_MOST_WORDS]):
            plain = piece.removeprefix("@").removeprefix("<").removeprefix("file://")
            yield plain
            yield plain.rstrip(";&|")


def _module(name: str) -> Iterator[str]:
    """Where ``python -m NAME`` looks for a module of the working directory."""
    path = name.replace(".", "/")
    yield f"{path}.py"
    yield f"{path}/__main__.py"


def _virtual_environment(program: str | None) -> str | None:
    """The file that identifies a virtual environment: the program is the same in all of them."""
    return None if program is None else str(Path(program).parent.parent / "pyvenv.cfg")


def _check_program(name: str) -> None:
    """Raises ProgramFailed, with a shell's exit code, where ``name`` cannot be run."""
    if shutil.which(name) is not None:
        return
    is_there = os.path.lexists(name) and "/" in name
    raise cannot_run(name, errno.EACCES if is_there else errno.ENOENT)


def _short_name(
    words: Sequence[str], environment: Mapping[str, str], variables: Sequence[str]
) -> str:
    """The name of a command: its words and the variables that matter most.

    A long name is cut and ends in a hash.
    """
    name = shlex.join([Path(words[0]).name, *words[1:]])
    shown = [
        f"{variable}={value}"
        for variable, value in environment.items()
        if variable in variables or variable.endswith(_SHOWN_SUFFIXES)
    ]
    name += f" [{', '.join(shown)}]" if shown else ""
    if len(name) <= _LONGEST_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{name[: _LONGEST_NAME - 8]}… {mark}"


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except OSError as error:
        raise UsageError(
            "the present folder was removed", fix="change to another folder"
        ) from error


def _digest(path: Path, *, is_whole: bool) -> str:
    """A hash of a file's content.

    Of a large file, or after many bytes of others: of its size, start and end. Of a file that may
    not be read: of its size.
    """
    start = b""
    with contextlib.suppress(OSError):
        size = path.stat().st_size
        start = str(size).encode()
        with path.open("rb") as file:
            if size > _WHOLE_FILE_BYTES or (size > 2 * _PART_BYTES and not is_whole):
                start += file.read(_PART_BYTES)
                file.seek(-_PART_BYTES, os.SEEK_END)
            return stream_hash(file, start)
    return file_hash(start)


def is_known(name: str) -> bool:
    """Whether a variable is part of every program's identity."""
    return name in _KNOWN or name.startswith(_PREFIXES)
