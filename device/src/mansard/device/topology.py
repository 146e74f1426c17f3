"""Cores and caches, as the kernel describes them under /sys/devices/system/cpu."""

from __future__ import annotations

from pathlib import Path

from mansard.core.records import Cache
from mansard.device.system import parse_cpu_list, read_int, read_text

_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3}


def physical_cores(root: Path, cpus: tuple[int, ...]) -> tuple[int, ...]:
    """One logical CPU for each physical core among ``cpus``: the lowest-numbered one.

    Two hardware threads of a core share its arithmetic units, so a second thread
    on a core measures contention, not another core. Where the kernel does not
    describe siblings every CPU counts as a core.
    """
    chosen: list[int] = []
    seen: set[int] = set()
    for cpu in sorted(cpus):
        if cpu in seen:
            continue
        chosen.append(cpu)
        seen.update(_siblings(root, cpu))
    return tuple(chosen)


def _siblings(root: Path, cpu: int) -> tuple[int, ...]:
    folder = _cpu_folder(root, cpu) / "topology"
    text = read_text(folder / "thread_siblings_list")
    return _cpu_list(text) or (cpu,)


def data_caches(root: Path, cpus: tuple[int, ...]) -> tuple[Cache, ...]:
    """The data and unified caches of ``cpus``, nearest first; empty where none is described.

    Sizes are those of the first CPU's instance; ``n_instances`` counts the
    distinct instances over all of ``cpus``. On a machine with unlike clusters
    (big and little cores) this describes the first CPU's cluster.
    """
    if not cpus:
        return ()
    caches = [
        cache
        for index in sorted((_cpu_folder(root, cpus[0]) / "cache").glob("index[0-9]*"))
        if (cache := _read_cache(root, index.name, index, cpus)) is not None
    ]
    return tuple(sorted(caches, key=lambda cache: cache.level))


def _read_cache(root: Path, name: str, folder: Path, cpus: tuple[int, ...]) -> Cache | None:
    level = read_int(folder / "level")
    size_bytes = _parse_size(read_text(folder / "size"))
    if level is None or size_bytes is None or read_text(folder / "type") == "Instruction":
        return None
    line_bytes = read_int(folder / "coherency_line_size") or None  # 0 is no size
    return Cache(
        level=level,
        size_bytes=size_bytes,
        line_bytes=line_bytes,
        shared_cpus=_sharers(root, name, cpus[0]),
        n_instances=len({_sharers(root, name, cpu) for cpu in cpus}),
        unknown={} if line_bytes else {"line_bytes": f"{folder}/coherency_line_size has none"},
    )


def _sharers(root: Path, index: str, cpu: int) -> tuple[int, ...]:
    text = read_text(_cpu_folder(root, cpu) / "cache" / index / "shared_cpu_list")
    return _cpu_list(text) or (cpu,)


def _cpu_list(text: str | None) -> tuple[int, ...]:
    try:
        return parse_cpu_list(text or "")
    except ValueError:
        return ()


def _parse_size(text: str | None) -> int | None:
    # The kernel writes "32K"; a few virtual machines report "0K", which is no size.
    if not text or text[-1] not in _UNITS or not text[:-1].isdigit():
        return None
    return int(text[:-1]) * _UNITS[text[-1]] or None


def _cpu_folder(root: Path, cpu: int) -> Path:
    return root / "sys/devices/system/cpu" / f"cpu{cpu}"
