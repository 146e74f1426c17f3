"""The GPU through CuPy: memory, marks of time, and kernels of every backend, loaded and launched.

CUDA C++ is compiled by NVRTC through CuPy's RawModule, then launched by address. Numba compiles
its functions itself; it and CuPy both use the device's primary context, so memory and stream are
shared. Matrix products are cuBLAS's, through CuPy's own binding: C = Aᵀ·B of square matrices, in
cuBLAS's order of columns first: the rows of what is called A and the rows of what is called B
here are multiplied with each other, which is the form that every precision has, int8 included
(cuBLAS, cublasGemmEx: for int8 the leading dimensions are multiples of 4, and tensor cores want A
transposed).

Numba's and cuBLAS's kernels, and the empty one, do not read the SM's clock. Two small kernels of
ours, before and after, leave what went by (sources/stamp.cu). They lie between the marks of time:
some 6 µs of a sample of 2 ms.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from math import isqrt
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from mansard.core.errors import MansardError, MeasurementError, UsageError
from mansard.core.records import MemoryKind
from mansard.core.text import printable
from mansard.microbench.cuda import cublaslt
from mansard.microbench.cuda.building import OPTIONS
from mansard.microbench.cuda.nvrtc import module_for
from mansard.microbench.cuda.runtime import CLOCK_WORDS, WORD_BYTES, MemoryInfo, Start
from mansard.microbench.kernel import Array, Case, Kernel, Launch

_STATIC_SHARED_BYTES = 48 * 1024  # more must be asked for (CUDA C++ Programming Guide)
_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation
_LONGEST_ERROR = 400  # characters of a message of CUDA
_LONGEST_LOG = 1500  # characters of a compiler's log


@dataclass
class CudaMemory:
    """Memory that CUDA gave; it is freed with the last reference to ``owner``."""

    owner: Any
    address: int
    n_bytes: int


class CupyRuntime:
    """The first visible GPU, with one stream that all work of this process goes through."""

    def __init__(self) -> None:
        import cupy

        with _named("opening the GPU"):
            self._device = cupy.cuda.Device(0)
            self._device.use()
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self.sm = int(self._device.compute_capability)
            attribute = cupy.cuda.runtime.cudaDevAttrMultiProcessorCount
            self.n_sms = int(cupy.cuda.runtime.deviceGetAttribute(attribute, 0))

    def memory_info(self) -> MemoryInfo:
        """The free and the total memory."""
        with _named("asking for the GPU's memory"):
            free_bytes, total_bytes = self._device.mem_info
        return MemoryInfo(free_bytes=int(free_bytes), total_bytes=int(total_bytes))

    def allocate(self, n_bytes: int, memory: MemoryKind) -> CudaMemory:
        """Memory by cudaMalloc, or page-locked memory of the host that the GPU reads in place."""
        from cupy.cuda import Memory, PinnedMemory, runtime

        with _named("allocating memory"):
            if memory == "zero-copy":
                # With unified addressing (every 64-bit Linux, so every board) the GPU uses
                # the host's address (CUDA for Tegra, memory selection).
                flags = runtime.hostAllocMapped | runtime.hostAllocPortable
                owner = PinnedMemory(n_bytes, flags)
            else:
                owner = Memory(n_bytes)
        return CudaMemory(owner, int(owner.ptr), n_bytes)

    def release(self, buffer: CudaMemory) -> None:
        """Free the memory as soon as all work is done."""
        with _named("waiting for the GPU"):
            self.stream.synchronize()
        buffer.owner, buffer.address = None, 0

    def fill(self, buffer: CudaMemory, pattern: Array) -> None:
        """Enqueue: the pattern's bytes over and over; copies double what is already there."""
        from cupy.cuda import runtime

        raw = np.ascontiguousarray(pattern).view(np.uint8).ravel()[: buffer.n_bytes]
        with _named("filling memory"):
            if (raw == raw[0]).all():
                size = buffer.n_bytes
                runtime.memsetAsync(buffer.address, int(raw[0]), size, self.stream.ptr)
                return
            self._copy(buffer.address, raw.ctypes.data, raw.size)
            self.stream.synchronize()  # the host's copy of the pattern may now go
            done = raw.size
            while done < buffer.n_bytes:
                size = min(done, buffer.n_bytes - done)
                self._copy(buffer.address + done, buffer.address, size)
                done += size

    def read(self, buffer: CudaMemory, n_bytes: int) -> Array:
        """The first bytes of the buffer, once everything enqueued before is done."""
        raw = np.empty(n_bytes, dtype=np.uint8)
        with _named("reading the GPU's memory"):
            self._copy(raw.ctypes.data, buffer.address, n_bytes)
            self.stream.synchronize()
        return raw

    def load(
        self,
        kernel: Kernel,
        case: Case,
        launch: Launch,
        arrays: Sequence[CudaMemory],
        clock: CudaMemory,
    ) -> Start:
        """Compile what runs the case; raises MeasurementError, UsageError."""
        if kernel.backend == "numba-cuda":
            return _load_numba(self, kernel, case, launch, arrays, clock)
        if kernel.backend == "cublas":
            return _load_gemm(self, case, launch, arrays, clock)
        if kernel.family == "launch":
            return _load_launches(self, kernel, case, launch, clock)
        return _load_raw(self, kernel, case, launch, arrays, clock)

    def record(self, *, spin: bool = False) -> Any:
        """Enqueue a mark; without ``spin`` the CPU sleeps while it is waited for.

        On a board a CPU that polls would draw power of its own beside the kernel.
        """
        import cupy

        with _named("marking time"):
            event = cupy.cuda.Event(block=not spin)
            event.record(self.stream)
        return event

    def synchronize(self, event: Any) -> None:
        """Wait until the GPU has passed the mark; a kernel that failed is told here."""
        with _named("waiting for the GPU"):
            event.synchronize()

    def elapsed_s(self, first: Any, second: Any) -> float:
        """Seconds between two marks; CUDA tells milliseconds, in steps of about 0.5 µs."""
        import cupy

        with _named("reading marks of time"):
            return float(cupy.cuda.get_elapsed_time(first, second)) * 1e-3

    def _copy(self, target: int, source: int, n_bytes: int) -> None:
        from cupy.cuda import runtime

        runtime.memcpyAsync(target, source, n_bytes, runtime.memcpyDefault, self.stream.ptr)


@contextmanager
def _named(doing: str) -> Iterator[None]:
    """Turns CuPy's RuntimeError of CUDA into ours; too little memory is raised as it is."""
    try:
        yield
    except RuntimeError as error:
        if getattr(error, "status", None) == _OUT_OF_MEMORY:
            raise MemoryError(str(error)) from error
        raise cuda_error(doing, error) from error


def cuda_error(doing: str, error: BaseException) -> MeasurementError:
    """The message of CUDA, a compiler or a library of CUDA in one line."""
    words = " ".join(str(error).split()) or type(error).__name__
    return MeasurementError(
        f"{doing} failed: {printable(words, _LONGEST_ERROR)}",
        where="CUDA",
        fix="look at 'dmesg' and nvidia-smi; after an illegal access only a new process helps",
    )


def compile_function(source: str, entry: str, architecture: str = "") -> Any:
    """One function of a source text, loaded; raises MeasurementError with the compiler's words.

    ``architecture``: what code is made for, such as "90a"; by default CuPy's choice, the compute
    capability of the card or the newest that this NVRTC knows.
    """
    import cupy
    from cupy.cuda.compiler import CompileException

    try:
        with (
            module_for(architecture, source, OPTIONS)
            if architecture
            else nullcontext(cupy.RawModule(code=source, options=OPTIONS))
        ) as module:
            function = module.get_function(entry)
            function.compile()
    except CompileException as error:
        raise MeasurementError(
            f"NVRTC does not compile {entry}: {printable(_first_error(str(error)), _LONGEST_LOG)}",
            fix="a newer CUDA runtime may know this card; otherwise report this",
        ) from error
    except Exception as error:  # CuPy, its compiler, a library that does not load: of many kinds
        raise MeasurementError(
            f"{entry} cannot be compiled or loaded: "
            f"{printable(' '.join(str(error).split()), _LONGEST_LOG)}",
            fix="is NVRTC of the same CUDA installed, and may CuPy write its cache "
            "(CUPY_CACHE_DIR)? 'mansard doctor' says what is missing",
        ) from error
    return function


def _first_error(log: str) -> str:
    """The first line of a compiler's log that says error, else all of it on one line."""
    errors = (line.strip() for line in log.splitlines() if "error" in line)
    return next(errors, " ".join(log.split()))


# Blocks that stamp before the kernel: some for every SM, wherever they land.
_STAMPS_PER_SM = 4
_MOST_SMS = 1024  # as sources/stamp.cu has it
_WARP = 32


class Stamps:
    """Stamps on the runtime's stream; their memory goes with the last reference to them."""

    def __init__(self, runtime: CupyRuntime, clock: CudaMemory) -> None:
        source = _source()
        self._before = compile_function(source, "stamp_before")
        self._after = compile_function(source, "stamp_after")
        self._grid = (_STAMPS_PER_SM * runtime.n_sms,)
        self._clock = clock
        self._memory = runtime.allocate(_MOST_SMS * CLOCK_WORDS * WORD_BYTES, "device")
        runtime.fill(self._memory, np.zeros(1, dtype=np.uint8))

    def before(self) -> None:
        """Enqueue the stamp before a sample, on CuPy's current stream."""
        self._before(self._grid, (_WARP,), (self._memory.address,))

    def after(self, slot: int) -> None:
        """Enqueue the stamp after it, which leaves the sample's clock words."""
        words = self._clock.address + slot * CLOCK_WORDS * WORD_BYTES
        self._after((1,), (_WARP,), (self._memory.address, words))


@cache
def _source() -> str:
    return (Path(__file__).parent / "sources" / "stamp.cu").read_text(encoding="utf-8")


def _load_raw(
    runtime: CupyRuntime,
    kernel: Kernel,
    case: Case,
    launch: Launch,
    arrays: Sequence[CudaMemory],
    clock: CudaMemory,
) -> Start:
    """Compile the kernel's function; returns how one sample is enqueued."""
    function = compile_function(kernel.source, kernel.entry(case), kernel.architecture)
    try:
        if launch.shared_bytes > _STATIC_SHARED_BYTES:
            function.max_dynamic_shared_size_bytes = launch.shared_bytes
        if case.scope == "sm" and runtime.sm >= 70 and not launch.shared_bytes:
            function.preferred_shared_memory_carveout = 0  # all of the SM's memory is L1
    except RuntimeError as error:
        raise cuda_error(f"setting up {printable(kernel.name)}", error) from error
    addresses = [array.address for array in arrays]
    # A plain int is passed as 64 bits, a NumPy scalar as what it is.
    operands = (
        *(addresses + [0] * (3 - len(addresses))),
        np.int64(launch.n_elements),
        np.int32(launch.fma_per_element),
    )
    grid, block = (launch.grid,), (launch.block,)

    def start(repetitions: int, slot: int) -> None:
        words = clock.address + slot * CLOCK_WORDS * WORD_BYTES
        arguments = (*operands, np.int32(repetitions), words)
        try:
            with runtime.stream:
                function(grid, block, arguments, shared_mem=launch.shared_bytes)
        except RuntimeError as error:
            raise cuda_error(f"launching {printable(kernel.name)}", error) from error

    return start


_MOST_NODES = 4096  # in a graph; more launches are several graphs in sequence


def _load_launches(
    runtime: CupyRuntime, kernel: Kernel, case: Case, launch: Launch, clock: CudaMemory
) -> Start:
    """How a number of launches of an empty kernel is enqueued, one by one or as graphs.

    The driver's own call is used: CuPy's takes longer to pack arguments than the driver to launch.
    A graph is captured at the first request for its number of nodes, which is no counted sample.
    """
    from cupy.cuda import Stream
    from cupy_backends.cuda.api import driver

    doing = f"launching {printable(kernel.name)}"
    function = compile_function(kernel.source, kernel.entry(case)).kernel.ptr
    stamps = Stamps(runtime, clock)
    dimensions = (launch.grid, 1, 1, launch.block, 1, 1)

    def enqueue(n_launches: int, stream: Any) -> None:
        call, address = driver.launchKernel, stream.ptr
        for _ in range(n_launches):
            call(function, *dimensions, 0, address, 0, 0)

    @cache
    def graph(n_nodes: int) -> Any:
        with _named(f"capturing a graph of {n_nodes} nodes"):
            stream = Stream(non_blocking=True)
            with stream:
                stream.begin_capture()
                enqueue(n_nodes, stream)
                return stream.end_capture()

    def start(repetitions: int, slot: int) -> None:
        whole, rest = divmod(repetitions, _MOST_NODES) if kernel.is_graph else (0, 0)
        graphs = [graph(_MOST_NODES)] * whole + ([graph(rest)] if rest else [])
        with _named(doing), runtime.stream:
            stamps.before()
            for instance in graphs:
                instance.launch(runtime.stream)
            if not kernel.is_graph:
                enqueue(repetitions, runtime.stream)
            stamps.after(slot)

    return start


@dataclass(frozen=True)
class GemmTypes:
    """cuBLAS's numbers for the types of one precision (library_types.h, cublas_api.h)."""

    operand: int  # cudaDataType of A and B
    result: int  # of C
    compute: int  # cublasComputeType_t: what is accumulated in
    scalar: type[Any]  # of alpha and beta


_R_32F, _R_64F, _R_16F, _R_8I, _R_32I, _R_16BF = 0, 1, 2, 3, 10, 14
_COMPUTE_32F, _COMPUTE_64F, _COMPUTE_32I, _COMPUTE_TF32 = 68, 70, 72, 77
_DEFAULT_ALGORITHM = -1
_TRANSPOSED, _AS_IS = 1, 0

TYPES = MappingProxyType(
    {
        "fp64": GemmTypes(_R_64F, _R_64F, _COMPUTE_64F, np.float64),
        "fp32": GemmTypes(_R_32F, _R_32F, _COMPUTE_32F, np.float32),
        "tf32": GemmTypes(_R_32F, _R_32F, _COMPUTE_TF32, np.float32),
        "fp16": GemmTypes(_R_16F, _R_16F, _COMPUTE_32F, np.float32),
        "bf16": GemmTypes(_R_16BF, _R_16BF, _COMPUTE_32F, np.float32),
        "int8": GemmTypes(_R_8I, _R_32I, _COMPUTE_32I, np.int32),
    }
)


def _load_gemm(
    runtime: CupyRuntime,
    case: Case,
    launch: Launch,
    arrays: Sequence[CudaMemory],
    clock: CudaMemory,
) -> Start:
    """How one sample is enqueued: a stamp, the products, a stamp."""
    doing = f"cuBLAS in {case.precision}"
    prepare = _narrow_product if case.precision in cublaslt.OPERANDS else _product
    try:
        multiply = prepare(runtime, case.precision, isqrt(launch.n_elements), arrays)
    except ImportError as error:
        raise cuda_error(doing, error) from error
    stamps = Stamps(runtime, clock)

    def start(repetitions: int, slot: int) -> None:
        with _named(doing), runtime.stream:
            stamps.before()
            for _ in range(repetitions):
                multiply()
            stamps.after(slot)

    return start


def _product(
    runtime: CupyRuntime,  # noqa: ARG001 - as _narrow_product
    precision: str,
    n: int,
    arrays: Sequence[CudaMemory],
) -> Callable[[], None]:
    """A function that enqueues one n × n product on CuPy's current stream, which cuBLAS gets."""
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas

    types = gemm_types(precision)
    a, b, c = (array.address for array in arrays)
    one, zero = np.ones(1, dtype=types.scalar), np.zeros(1, dtype=types.scalar)

    def multiply() -> None:
        cublas.gemmEx(
            device.get_cublas_handle(), _TRANSPOSED, _AS_IS, n, n, n,
            one.ctypes.data, a, types.operand, n, b, types.operand, n,
            zero.ctypes.data, c, types.result, n,
            types.compute, _DEFAULT_ALGORITHM,
        )  # fmt: skip

    return multiply


def _narrow_product(
    runtime: CupyRuntime, precision: str, n: int, arrays: Sequence[CudaMemory]
) -> Callable[[], None]:
    """A function that enqueues one product of fp8 or fp4 on the runtime's stream."""
    from cupy.cuda import runtime as cuda

    workspace = runtime.allocate(cublaslt.WORKSPACE_BYTES, "device")
    scales = None
    if precision == "fp4":
        scales = runtime.allocate(n * n // cublaslt.SCALED_ELEMENTS, "device")
        runtime.fill(scales, np.full(1, cublaslt.SCALE_ONE, dtype=np.uint8))
    a, b, c = (array.address for array in arrays)
    buffers = cublaslt.ProductBuffers(
        a, b, c, workspace.address, 0 if scales is None else scales.address
    )
    library = cublaslt.open_cublaslt(int(cuda.runtimeGetVersion()) // 1000)
    enqueue = cublaslt.plan_product(library, precision, n, buffers)

    # The function holds the memory that only its addresses name.
    def multiply(_memory: tuple[CudaMemory | None, ...] = (workspace, scales)) -> None:
        enqueue(runtime.stream.ptr)

    return multiply


def gemm_types(precision: str) -> GemmTypes:
    """The types of a product; raises UsageError for a precision that cuBLAS lacks."""
    types = TYPES.get(precision)
    if types is None:
        raise UsageError(
            f"cuBLAS multiplies no {precision} here", fix=f"it does {', '.join(TYPES)}"
        )
    return types


_WORD = np.dtype(np.uint64)
_LONGEST_WORDS = 600


def _load_numba(
    runtime: CupyRuntime,
    kernel: Kernel,
    case: Case,
    launch: Launch,
    arrays: Sequence[CudaMemory],
    clock: CudaMemory,
) -> Start:
    """The kernel's function, compiled now, and how one sample is enqueued between two stamps."""
    types = [pattern.dtype for pattern in kernel.pattern(case, launch)]
    with _numba_named(f"compiling {kernel.name}"):
        from numba import cuda

        views = [
            _view(array.address, array.n_bytes // dtype.itemsize, dtype)
            for array, dtype in zip(arrays, types, strict=True)
        ]
        # A kernel takes three arrays; what is missing is never touched.
        views += [views[0]] * (3 - len(views))
        words = _view(clock.address, CLOCK_WORDS, _WORD)
        stream = cuda.external_stream(runtime.stream.ptr)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the grid's size: it is ours
            function = kernel.build(case)[launch.grid, launch.block, stream, launch.shared_bytes]
    stamps = Stamps(runtime, clock)

    def start(repetitions: int, slot: int) -> None:
        with _numba_named(f"launching {kernel.name}"), runtime.stream:
            stamps.before()
            function(*views, launch.n_elements, launch.fma_per_element, repetitions, words)
            stamps.after(slot)

    return start


@contextmanager
def _numba_named(doing: str) -> Iterator[None]:
    """Turns errors of Numba, its compiler and the driver, of a dozen kinds, into ours."""
    try:
        yield
    except MansardError:
        raise
    except Exception as error:
        words = printable(" ".join(str(error).split()) or type(error).__name__, _LONGEST_WORDS)
        raise MeasurementError(
            f"Numba, {printable(doing)}: {words}",
            fix="is numba-cuda installed for the driver's CUDA? 'mansard doctor' says",
        ) from error


def _view(address: int, n_elements: int, dtype: np.dtype[Any]) -> Any:
    """Device memory as an array of Numba's; contiguous, so that its loads are wide."""
    from numba import cuda

    interface = {
        "shape": (n_elements,),
        "strides": None,
        "typestr": dtype.str,
        "data": (address, False),
        "version": 3,
    }
    return cuda.from_cuda_array_interface(interface, owner=None, sync=False)
