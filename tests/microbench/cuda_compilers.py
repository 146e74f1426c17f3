"""NVRTC and nvdisasm of NVIDIA's wheels, on a machine without any GPU."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import struct
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from mansard.microbench.cuda.nvrtc import find_nvrtc, load_nvrtc

_MAJORS = (12, 13)  # of the wheels nvidia-cuda-nvrtc-cu12 and nvidia-cuda-nvrtc
_NVDISASM = "cu13/bin/nvdisasm"  # of the wheel nvidia-cuda-nvdisasm
# nvdisasm 13.5 has no Volta, but Volta's instructions are those of Turing without the
# uniform ones: raw code of sm_70 and sm_72 reads right as SM75 (branches, memory, HMMA).
_READ_AS = {70: 75, 72: 75}
_INSTRUCTION_BYTES = 16  # since Volta
_ADDRESS = re.compile(r"/\*[0-9a-f]+\*/")


@dataclass(frozen=True)
class Compiler:
    """One NVRTC library."""

    version: tuple[int, int]
    path: Path

    def architectures(self) -> tuple[int, ...]:
        """Compute capabilities it makes machine code for."""
        library = load_nvrtc(self.path)
        count = ctypes.c_int()
        _check(library.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "count")
        found = (ctypes.c_int * count.value)()
        _check(library.nvrtcGetSupportedArchs(found), "list")
        return tuple(found)

    def cubin(self, source: str, sm: int | str, options: tuple[str, ...] = ()) -> bytes:
        """Machine code of ``source``; raises AssertionError with the compiler's log."""
        library = load_nvrtc(self.path)
        program = ctypes.c_void_p()
        text = source.encode()
        status = library.nvrtcCreateProgram(
            ctypes.byref(program), text, b"kernel.cu", 0, None, None
        )
        _check(status, "create")
        all_options = (f"--gpu-architecture=sm_{sm}", *options)
        words = (ctypes.c_char_p * len(all_options))(*(o.encode() for o in all_options))
        status = library.nvrtcCompileProgram(program, len(all_options), words)
        log = _read(library, "ProgramLog", program).decode(errors="replace")
        _check(status, log)
        return _read(library, "CUBIN", program)


def _read(library: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), what)
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{what}")(program, buffer), what)
    return buffer.raw


def _check(status: int, log: str) -> None:
    assert status == 0, f"NVRTC answers {status}: {log}"


@lru_cache(maxsize=1)
def find_compilers() -> tuple[Compiler, ...]:
    """The NVRTC libraries of the wheels that are installed."""
    found = []
    for major in _MAJORS:
        path = find_nvrtc(major)
        if path is None:
            continue
        library = load_nvrtc(path)
        numbers = ctypes.c_int(), ctypes.c_int()
        _check(library.nvrtcVersion(*(ctypes.byref(n) for n in numbers)), "version")
        assert numbers[0].value == major
        found.append(Compiler((major, numbers[1].value), path))
    return tuple(found)


@lru_cache(maxsize=1)
def find_disassembler() -> Path | None:
    """The program nvdisasm of its wheel."""
    spec = importlib.util.find_spec("nvidia")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    return next((p for p in (Path(f) / _NVDISASM for f in folders) if p.is_file()), None)


def read_functions(cubin: bytes) -> dict[str, bytes]:
    """Machine code of each kernel: sections .text.<name> of the ELF file."""
    (table,) = struct.unpack_from("<Q", cubin, 40)
    n_sections, names = struct.unpack_from("<HH", cubin, 60)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + 64 * k) for k in range(n_sections)]
    code = {}
    for name, _, _, _, start, size in headers:
        first = headers[names][4] + name
        text = cubin[first : cubin.index(b"\0", first)].decode()
        if text.startswith(".text."):
            code[text.removeprefix(".text.")] = cubin[start : start + size]
    return code


def disassemble(code: dict[str, bytes], sm: int) -> dict[str, str]:
    """SASS of each function, an instruction a line after its address.

    One call reads all functions, one behind the other; addresses are those within all.
    """
    program = find_disassembler()
    assert program is not None
    with TemporaryDirectory() as folder:
        file = Path(folder) / "code.bin"
        file.write_bytes(b"".join(code.values()))
        done = subprocess.run(
            [str(program), "--binary", f"SM{_READ_AS.get(sm, sm)}", str(file)],
            capture_output=True,
            text=True,
            check=True,
        )
    lines = [line for line in done.stdout.splitlines() if _ADDRESS.search(line)]
    texts, start = {}, 0
    for name, machine_code in code.items():
        n_lines = len(machine_code) // _INSTRUCTION_BYTES
        texts[name] = "\n".join(lines[start : start + n_lines])
        start += n_lines
    assert start == len(lines)
    return texts
