"""From a command to a trial: what it is called, and a hash of the files that it is made of.

Variables of the environment that are known to change its speed are part of what a program is: left
out, a run with one thread would answer for a run with four. Sources: the documents of OpenMP,
OpenBLAS, oneMKL, Numba, CUDA, NCCL, cuDNN, TensorRT, ONNX Runtime, PyTorch, TensorFlow, XLA, JAX,
Python, glibc and the dynamic linker.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from mansard.core.errors import UsageError
from mansard.core.hashing import ID_CHARACTERS, content_hash, file_hash, stream_hash
from mansard.core.text import MASK, is_secret_name, is_utf8, masked, masked_words, printable
from mansard.inference.programs.execution import cannot_run
from mansard.inference.programs.plan import ProgramTrial

_LONGEST_NAME = 60
_HASHED_BYTES = 64 << 20  # of a larger file its size, its first and its last part
_PART_BYTES = 1 << 20
_MOST_BYTES = 1 << 30  # of all files together that are read whole
_SHOWN = ("_THREADS", "_VISIBLE_DEVICES")  # variables that stand in a program's name
_MOST_WORDS = 1000  # of a line for a shell, and of a list


def make_program_trial(
    command: Sequence[str],
    name: str | None = None,
    metric: str | None = None,
    variables: Sequence[str] = (),
) -> ProgramTrial:
    """What is to be run, in the present folder; by default it is called after its command.

    Raises ProgramFailed where there is no such program, UsageError.
    """
    if not command or not command[0]:
        raise UsageError("no command is given", fix="mansard measure -- python3 my_program.py")
    folder = _present_folder()
    for word in (*command, folder):
        if "\0" in word or not is_utf8(word):
            raise UsageError(
                f"{word!r} is no text in UTF-8, and could not be kept",
                fix="rename it, or call it from a script",
            )
    _check_program(command[0])
    environment, shown = read_environment(variables), masked_words(command)
    return ProgramTrial(
        workload=printable(name or _short_name(shown, environment, variables)),
        command=shown,
        folder=folder,
        program_hash=hash_program(command, environment),
        metric_pattern=metric,
        environment=environment,
        unknown={} if metric is not None else {"metric_pattern": "none was asked for"},
    )


def hash_program(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Of the program's file, of the files that its arguments and standard input are, as they are.

    And of its environment, and of the secrets among its words, which no plan and no row has.
    """
    found = hashlib.sha256(content_hash(environment).encode() if environment else b"")
    program = shutil.which(command[0])
    named = [path for word in command[1:] for path in _named_files(word)]
    modules = [path for flag, name in pairwise(command) if flag == "-m" for path in _module(name)]
    standard_input = "/proc/self/fd/0"
    n_bytes = 0
    for path in dict.fromkeys((program, _settings_of(program), *named, *modules, standard_input)):
        if path is not None and os.path.isfile(path):  # noqa: PTH113 - a long word is no error
            with contextlib.suppress(OSError):
                n_bytes += Path(path).stat().st_size
            found.update(_digest(Path(path), is_whole=n_bytes <= _MOST_BYTES).encode())
    for word, shown in zip(command, masked_words(command), strict=True):
        if word != shown:
            found.update(secret_hash(word).encode())
    return found.hexdigest()[:ID_CHARACTERS]


def _named_files(word: str) -> Iterator[str]:
    """What of a word may name a file: ``FILE``, ``--config=FILE``, ``-cFILE``, ``@FILE``, a list of
    them, and each word of a shell's line.
    """
    if any(character.isspace() for character in word):
        try:
            words = shlex.split(word)[:_MOST_WORDS]
        except ValueError:  # a quote without its end
            words = word.split()[:_MOST_WORDS]
        yield word
        for each in words:
            if each != word:
                yield from _named_files(each)
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
    """Where ``python -m NAME`` finds a module of the present folder."""
    path = name.replace(".", "/")
    yield f"{path}.py"
    yield f"{path}/__main__.py"


def _settings_of(program: str | None) -> str | None:
    """Of a Python in a virtual environment, whose program is that of all others."""
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
    """What a command is called: its words and the variables that matter most, told apart by a hash
    where they are long.
    """
    name = shlex.join([Path(words[0]).name, *words[1:]])
    shown = [
        f"{variable}={value}"
        for variable, value in environment.items()
        if variable in variables or variable.endswith(_SHOWN)
    ]
    name += f" [{', '.join(shown)}]" if shown else ""
    if len(name) <= _LONGEST_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{name[: _LONGEST_NAME - 8]}… {mark}"


def _present_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError as error:
        raise UsageError("the present folder is gone", fix="change to another folder") from error


def _digest(path: Path, *, is_whole: bool) -> str:
    """A file by its content; one that is large, or comes late, by its size and ends.

    One that may not be read by its size.
    """
    start = b""
    with contextlib.suppress(OSError):
        size = path.stat().st_size
        start = str(size).encode()
        with path.open("rb") as file:
            if size > _HASHED_BYTES or (size > 2 * _PART_BYTES and not is_whole):
                start += file.read(_PART_BYTES)
                file.seek(-_PART_BYTES, os.SEEK_END)
            return stream_hash(file, start)
    return file_hash(start)


MOST_BYTES = 4096  # of one value; of a longer one its hash is part of the identity
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
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_ROUNDS = 100_000  # of PBKDF2: to guess a short password from its hash takes long


def is_known(name: str) -> bool:
    """Whether a variable is part of every program's identity."""
    return name in _KNOWN or name.startswith(_PREFIXES)


def read_environment(
    names: Sequence[str], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The variables that are set of the known ones and of ``names``; raises UsageError.

    The value of a secret is replaced by a hash that a guess takes long to find.
    """
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"--env {name!r} is no name of a variable", fix="write --env NAME")
    wanted = sorted(name for name in environment if is_known(name) or name in names)
    return {name: _shown(name, environment[name]) for name in wanted}


def _shown(name: str, value: str) -> str:
    safe = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if is_secret_name(name) or masked(f"{name}={safe}") != f"{name}={safe}":
        return f"{MASK} {secret_hash(value)}"
    if len(safe) > MOST_BYTES:
        digest = hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return f"{len(safe)} characters, {digest}"
    return safe


def secret_hash(value: str) -> str:
    """A short hash of a secret."""
    data = value.encode("utf-8", "surrogateescape")
    return hashlib.pbkdf2_hmac("sha256", data, b"mansard program", _ROUNDS).hex()[:16]
