"""The cost of scoring over the number of nodes, and of another batch after loading.

    python benchmarks/score_size.py [--plot FILE.svg] [MODEL.onnx name=size ...]

Without a model: networks of 1,000 to 50,000 nodes like exported transformers. CPU time
in this process after all imports; the median and half the range of five runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from scorers.models import chain

N_RUNS = 5
COUNTS = (1000, 2000, 5000, 10_000, 20_000, 50_000)


def main() -> None:
    """Measure and print; write a plot where one is asked for."""
    parser = argparse.ArgumentParser(description="The cost of scoring over the number of nodes")
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("dims", nargs="*", help="name=size")
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    dims = {name: int(size) for name, _, size in (text.partition("=") for text in arguments.dims)}
    print(f"{'nodes':>8} {'load ms':>14} {'score ms':>14} {'again ms':>14} {'µs a node':>10}")
    if arguments.model is not None:
        _measure(arguments.model, dims)
        return
    rows = [_measure(chain(count), {"sequence": 128}) for count in COUNTS]
    if arguments.plot is not None:
        _plot(rows, arguments.plot)


def _measure(source: Path | bytes, dims: dict[str, int]) -> tuple[int, float]:
    from mansard.estimator import Given, Settings, load, score_loaded

    first = Settings(Given(dims={"batch": 1, **dims}))
    other = Settings(Given(dims={"batch": 8, **dims}))
    load_s, loaded = _timed(lambda: load(source))
    score_s, scored = _timed(lambda: score_loaded(loaded[0], first))
    again_s, _ = _timed(lambda: score_loaded(loaded[0], other))
    n_nodes = len(scored[0].layers)
    whole_s = median(load_s) + median(score_s)
    cells = [_cell(times) for times in (load_s, score_s, again_s)]
    print(f"{n_nodes:8}", *cells, f"{1e6 * whole_s / n_nodes:10.1f}")
    return n_nodes, whole_s


def _timed(work: Callable[[], object]) -> tuple[list[float], list]:  # type: ignore[type-arg]
    times, results = [], []
    for _ in range(N_RUNS):
        started_s = time.process_time()
        results = [work()]
        times.append(time.process_time() - started_s)
    return times, results


def _cell(times: list[float]) -> str:
    half = (max(times) - min(times)) / 2
    return f"{1e3 * median(times):.1f} ±{1e3 * half:.1f}".rjust(14)


def _plot(rows: list[tuple[int, float]], path: Path) -> None:
    import altair as alt
    import polars as pl
    import vl_convert

    frame = pl.DataFrame(rows, schema=["nodes", "seconds"], orient="row")
    base = alt.Chart(frame).encode(
        x=alt.X("nodes:Q", title="nodes"), y=alt.Y("seconds:Q", title="load and score, s of CPU")
    )
    chart = (base.mark_line() + base.mark_point(filled=True)).properties(width=460, height=280)
    path.write_text(vl_convert.vegalite_to_svg(chart.to_dict()))


if __name__ == "__main__":
    main()
