"""Machine code for an architecture that CuPy does not name, such as sm_90a.

CuPy compiles for the card's compute capability, a number. Code for "90a" comes from the same NVRTC,
through the binding that CuPy itself uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from typing import Any


@contextmanager
def module_for(architecture: str, source: str, options: tuple[str, ...]) -> Iterator[Any]:
    """A module of CuPy with code for sm_``architecture``, whose functions are loaded in this block.

    Raises CuPy's CompileException with NVRTC's log, as CuPy does.
    """
    import cupy

    with NamedTemporaryFile(suffix=".cubin") as file:  # CuPy loads machine code from files alone
        file.write(compile_for(architecture, source, options))
        file.flush()
        yield cupy.RawModule(path=file.name)


def compile_for(architecture: str, source: str, options: tuple[str, ...]) -> bytes:
    """Machine code (CUBIN) for sm_``architecture``; raises as ``module_for``."""
    from cupy.cuda.compiler import CompileException
    from cupy_backends.cuda.libs import nvrtc

    options = (f"--gpu-architecture=sm_{architecture}", *options)
    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
        return bytes(nvrtc.getCUBIN(program))
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program) or str(error)
        raise CompileException(log, source, "kernel.cu", options, "nvrtc") from error
    finally:
        nvrtc.destroyProgram(program)
