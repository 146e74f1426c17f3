"""Mansard's CPU kernels against the best C that gcc (and clang) make of the same work.

Both sides are C functions with the same arguments, run by the same compiled sample
loop on the same pinned threads and the same memory, in turns. Of every kernel the C
side has several variants (plain loops, ``omp simd``, vectors by name, the library,
stores past the caches); the fastest on this machine, at this size, is the peer.

    python benchmarks/cpu_peer.py [--threads N] [--json]

A ratio is the peer's time over ours: above 1 we are faster. Its interval is the 95 %
rank interval of the median over pairs of blocks. The exit code is always 0: a report.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, median

from mansard.device.identity import identify
from mansard.measuring.raw_samples import rejection
from mansard.measuring.sampling import calibrate, median_interval
from mansard.microbench.cpu.launching import fill
from mansard.microbench.cpu.source import CpuSource
from mansard.microbench.cpu.trial_specs import choose_stores
from mansard.microbench.kernel import HOST, Case, find_kernel

SOURCES = Path(__file__).parent / "cpu_peer"
FLAGS = ["-O3", "-march=native", "-fopenmp-simd", "-ffp-contract=fast", "-shared", "-fPIC"]
# What a sum in any order needs; of no effect on the kernels' values otherwise.
FLAGS += ["-fno-math-errno", "-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math"]
REAL = {"fp32": "float", "fp64": "double"}
TARGETS = {"fma": 0.97, "read": 0.97, "copy": 0.95, "triad": 0.95}
FLAT_GRID = (64, 128, 256, 512, 1024)
FLAT_TARGET = 0.97
FMA_BLOCKS_BYTES = 48 * 64
CPU_SHARE_MIN = 0.98
SAMPLE_S = 0.0015
N_PAIRS, N_ROUNDS, N_SAMPLES = 24, 5, 5


@dataclass(frozen=True)
class Duel:
    """One kernel at one level against the best C variant."""

    kernel: str
    precision: str
    level: str
    working_set_bytes: int
    n_threads: int
    peer: str
    ours_per_s: float  # FLOP or bytes
    peer_per_s: float
    ratio: float
    low: float
    high: float
    target: float
    verdict: str  # holds, undecided, DOES NOT HOLD


@dataclass(frozen=True)
class Roof:
    """Rates over chain lengths of one code, and the least over the greatest of them."""

    code: str
    precision: str
    flop_per_s: dict[int, float]
    flatness: float
    target: float | None
    holds: bool | None


def compile_peers(folder: Path) -> dict[str, dict[str, int]]:
    """Addresses of all C variants by precision and name, ``compiler:variant``."""
    addresses: dict[str, dict[str, int]] = {precision: {} for precision in REAL}
    for compiler in filter(shutil.which, ("gcc", "clang")):
        for source in sorted(SOURCES.glob("*.c")):
            names = exported_names(source)
            extra = ["-fno-tree-loop-distribute-patterns"] if compiler == "gcc" else []
            for precision, real in REAL.items():
                library = folder / f"{compiler}-{source.stem}-{real}.so"
                command = [compiler, *FLAGS, *extra, f"-DREAL={real}", str(source)]
                subprocess.run([*command, "-o", str(library)], check=True)
                loaded = ctypes.CDLL(str(library))
                for name in names:
                    function = getattr(loaded, name, None)
                    if function is None:
                        continue  # needs vectors this machine has not
                    address = ctypes.cast(function, ctypes.c_void_p).value
                    if address is not None:
                        addresses[precision][f"{compiler}:{name}"] = address
                _LOADED.append(loaded)
    return addresses


_LOADED: list[ctypes.CDLL] = []


def exported_names(source: Path) -> list[str]:
    """All names of variants a source may define, from its macros' uses."""
    prefixes = {
        "BLOCKED": "fma_blocked{}",
        "VECTORS": "fma_vectors{}x{}",
        "READ": "read_vectors{}x{}",
        "COPY": "copy_vectors{}x{}",
        "TRIAD": "triad_vectors{}x{}",
        "COPY_PAST": "copy_past{}x{}",
        "TRIAD_PAST": "triad_past{}x{}",
        "PEER": "{}",
    }
    names = []
    for line in source.read_text().splitlines():
        head, bracket, rest = line.partition("(")
        if bracket and head in prefixes and rest.endswith(")"):
            names.append(prefixes[head].format(*rest[:-1].split(", ")))
    return names


def accepted(source: CpuSource, function: int, repetitions: int, n_samples: int) -> list[float]:
    """Seconds of a repetition, of undisturbed samples only; the first one warms up."""
    raw = source.take(n_samples + 1, repetitions, function=function)[1:]
    kept = [sample for sample in raw if rejection(sample, CPU_SHARE_MIN) is None]
    return [sample.duration_s / repetitions for sample in kept]


def choose_best(source: CpuSource, candidates: dict[str, int], repetitions: int) -> str:
    """The candidate with the least median, over rounds that run all of them in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(N_ROUNDS):
        for name, function in candidates.items():
            seconds[name] += accepted(source, function, repetitions, 3)
    return min(seconds, key=lambda name: median(seconds[name] or [float("inf")]))


def paired_ratios(
    source: CpuSource, ours: int, peer: int, repetitions: int, target: float
) -> tuple[list[float], list[float], list[float]]:
    """Block medians of ours, of the peer, and the peer's over ours, turn by turn.

    A median below the target is looked at again, with three times the pairs in all.
    """
    all_ours: list[float] = []
    all_peers: list[float] = []
    ratios: list[float] = []
    for pair in range(3 * N_PAIRS):
        if pair == N_PAIRS and median(ratios or [0.0]) >= target:
            break
        order = (ours, peer) if pair % 2 == 0 else (peer, ours)
        blocks = {f: accepted(source, f, repetitions, N_SAMPLES) for f in order}
        if all(blocks.values()):
            mine, other = median(blocks[ours]), median(blocks[peer])
            all_ours.append(mine)
            all_peers.append(other)
            ratios.append(other / mine)
    return all_ours, all_peers, ratios


def run_duel(case: Case, level: str, cpus: tuple[int, ...], peers: dict[str, int]) -> Duel | None:
    """Ours against the best peer; None if the machine left no sample undisturbed."""
    kernel = find_kernel(case.kernel)
    candidates = {n: f for n, f in peers.items() if n.partition(":")[2].startswith(case.kernel)}
    if case.kernel == "fma":
        candidates = {n: f for n, f in candidates.items() if not n.endswith("_ert")}
    variants = {str(variant): kernel.build(variant) for variant in kernel.variants(case)}
    with CpuSource(case, cpus) as source:
        repetitions = calibrate(source, SAMPLE_S, lambda: False)
        ours = variants[choose_best(source, variants, repetitions)]
        expected = outputs(source, case, ours)
        for name, function in candidates.items():
            if outputs(source, case, function) != expected:  # bit by bit
                raise SystemExit(f"{name} does not do the work of {case}")
        name = choose_best(source, candidates, repetitions)
        target = TARGETS[case.kernel]
        mine, others, ratios = paired_ratios(source, ours, candidates[name], repetitions, target)
    interval = median_interval(ratios)
    if interval is None:
        return None
    counted = kernel.work_flop if kernel.family == "fma" else kernel.traffic_bytes
    count = counted(case, kernel.launch(case, HOST))
    ratio = median(ratios)
    return Duel(
        kernel=case.kernel,
        precision=case.precision,
        level=level,
        working_set_bytes=case.working_set_bytes * len(cpus),
        n_threads=len(cpus),
        peer=name,
        ours_per_s=count * len(cpus) / median(mine),
        peer_per_s=count * len(cpus) / median(others),
        ratio=ratio,
        low=interval[0],
        high=interval[1],
        target=target,
        verdict=judge(ratio, interval[1], target),
    )


def judge(ratio: float, high: float, target: float) -> str:
    """The median decides; just below the target, the interval may leave it open."""
    if ratio >= target:
        return "holds"
    return "undecided" if high >= target else "DOES NOT HOLD"


def measure_roof(code: str, case: Case, cpu: int, function: int) -> Roof:
    """Rates from 64 to 1024 FMA an element, chain lengths taken in turns.

    In every round each length is related to the round's mean: what slows a whole
    round down does not bend the roof.
    """
    kernel = find_kernel("fma")
    launch = kernel.launch(case, HOST)
    flop = {n: kernel.work_flop(replace(case, fma_per_element=n), launch) for n in FLAT_GRID}
    rounds: list[dict[int, float]] = []
    with CpuSource(case, (cpu,), function) as source:
        words = source.operands[0].words
        for _ in range(N_PAIRS):
            rates = {}
            for n_fma in FLAT_GRID:
                words[4] = n_fma
                repetitions = max(1, round(SAMPLE_S * 5e10 / flop[n_fma]))
                seconds = accepted(source, function, repetitions, 3) or [float("inf")]
                rates[n_fma] = flop[n_fma] / median(seconds)
            if all(rates.values()):
                rounds.append(rates)
    relative = {n: median(rates[n] / mean(rates.values()) for rates in rounds) for n in FLAT_GRID}
    flatness = min(relative.values()) / max(relative.values())
    is_ours = code == "mansard"
    return Roof(
        code=code,
        precision=case.precision,
        flop_per_s={n: median(rates[n] for rates in rounds) for n in FLAT_GRID},
        flatness=flatness,
        target=FLAT_TARGET if is_ours else None,
        holds=flatness >= FLAT_TARGET if is_ours else None,
    )


def whole_blocks(size_bytes: int) -> int:
    """The size rounded down to what blocks of 8, 12 and 16 vectors of 64 bytes divide."""
    return max(1, size_bytes // FMA_BLOCKS_BYTES) * FMA_BLOCKS_BYTES


def outputs(source: CpuSource, case: Case, function: int) -> list[bytes]:
    """What the arrays hold after one repetition on fresh operands."""
    kernel = find_kernel(case.kernel)
    for operands in source.operands:
        fill(kernel, case, operands.arrays)
    source.take(1, 1, function=function)
    return [array.tobytes() for operands in source.operands for array in operands.arrays]


def levels(cpus: tuple[int, ...]) -> tuple[dict[str, int], int | None]:
    """Working sets per thread by level, and the last cache's size."""
    caches = sorted(identify().caches, key=lambda cache: cache.level)
    sizes = {}
    for cache in caches[:-1]:
        sizes[f"L{cache.level}"] = cache.size_bytes // 2
    last = caches[-1] if caches else None
    if last is None:
        return {"memory": 256 * 2**20 // len(cpus)}, None
    sizes[f"L{last.level}"] = last.size_bytes // 4 // len(cpus)  # others may use it as well
    sizes["DRAM"] = 4 * last.size_bytes // len(cpus)
    return sizes, last.size_bytes


def run_all(
    cpus: tuple[int, ...], kernels: Iterable[str]
) -> tuple[list[Duel], list[Roof], list[str]]:
    """Everything, printed to stderr as it comes; at last what could not be measured."""
    duels, roofs, unmeasured = [], [], []
    sizes, last_bytes = levels(cpus)
    with tempfile.TemporaryDirectory() as folder:
        peers = compile_peers(Path(folder))
        cases = []
        for name in kernels:
            if name == "fma":
                first = next(iter(sizes.values()))
                cases += [("L1", Case("fma", p, whole_blocks(first), 256)) for p in REAL]
                continue
            for level, size in sizes.items():
                stores = choose_stores(size * len(cpus), last_bytes) if name != "read" else None
                cases.append((level, Case(name, "fp32", size, None, stores)))
        for level, case in cases:
            duel = run_duel(case, level, cpus, peers[case.precision])
            print(describe_duel(duel, case, level), file=sys.stderr, flush=True)
            if duel is None:
                unmeasured.append(f"{case.kernel} {case.precision} {level} (no result)")
            else:
                duels.append(duel)
        if "fma" in kernels:
            for precision in REAL:
                case = Case("fma", precision, whole_blocks(next(iter(sizes.values()))), 64)
                codes = {"mansard": find_kernel("fma").build(case)}
                codes["ERT-style C"] = peers[precision]["gcc:fma_ert"]
                for code, function in codes.items():
                    roofs.append(measure_roof(code, case, cpus[0], function))
                    print(describe_roof(roofs[-1]), file=sys.stderr, flush=True)
    return duels, roofs, unmeasured


def describe_duel(duel: Duel | None, case: Case, level: str) -> str:
    """One line of the table."""
    if duel is None:
        return f"{case.kernel:6} {case.precision} {level:5} no undisturbed samples"
    unit = "GFLOP/s" if duel.kernel == "fma" else "GB/s"
    return (
        f"{duel.kernel:6} {duel.precision} {duel.level:5} {duel.n_threads} thr  "
        f"{duel.ratio:.3f} [{duel.low:.3f}, {duel.high:.3f}] >= {duel.target} {duel.verdict:13}  "
        f"{duel.ours_per_s / 1e9:7.1f} vs {duel.peer_per_s / 1e9:7.1f} {unit} ({duel.peer})"
    )


def describe_roof(roof: Roof) -> str:
    """One line of the table."""
    rates = " ".join(f"{n}: {rate / 1e9:.1f}" for n, rate in roof.flop_per_s.items())
    verdict = "" if roof.holds is None else " holds" if roof.holds else " DOES NOT HOLD"
    return (
        f"roof {roof.precision} {roof.code:12} least/greatest {roof.flatness:.3f}{verdict} {rates}"
    )


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--threads", type=int, default=1, help="pinned threads (default 1)")
    parser.add_argument("--kernels", default="fma,read,copy,triad", help="which, with commas")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    arguments = parser.parse_args()
    if shutil.which("gcc") is None:
        parser.error("gcc is needed to compile the peers")
    cpus = identify().cpus[: arguments.threads]
    duels, roofs, unmeasured = run_all(cpus, arguments.kernels.split(","))
    if arguments.json:
        result = {
            "duels": [asdict(duel) for duel in duels],
            "roofs": [asdict(roof) for roof in roofs],
            "unmeasured": unmeasured,
        }
        print(json.dumps(result, indent=2))
        return
    failing = [
        f"{d.kernel} {d.precision} {d.level} ({d.verdict})" for d in duels if d.verdict != "holds"
    ]
    failing += unmeasured
    failing += [f"flat roof {r.precision}" for r in roofs if r.holds is False]
    print("targets that do not hold: " + (", ".join(failing) or "none"))


if __name__ == "__main__":
    main()
