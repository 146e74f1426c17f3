"""What HaX-CoNN's artifact recorded, compared by one metric: the end of the later network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mansard.api.deciding.haxconn_logs import published_rounds

# https://github.com/ismetdagli/HaX-CoNN, orin_baseline_engines_logs/
# orin_mean_results_of_executions.txt: mean milliseconds of GoogleNet and of ResNet101 while both
# run on an AGX Orin; and how orin_summarize_multi_dnn_executions.py makes one number of the two.
ORIN = {
    "GPU only": (2.6664, 3.5535, "sum"),
    "GoogleNet on GPU, ResNet101 on DLA": (1.4587, 1.5865, "sum"),
    "Herald": (1.9708, 1.9943, "largest"),
    "H2H": (2.1277, 2.1196, "largest"),
    "HaX-CoNN": (1.8233, 1.9288, "largest"),
}


def orin_table() -> Iterator[str]:
    """Rows in Markdown, and what follows from them."""
    yield "| schedule | GoogleNet, ms | ResNet101, ms | the artifact's number | later network, ms |"
    yield "|---|--:|--:|--:|--:|"
    theirs, later = {}, {}
    for name, (googlenet, resnet, rule) in ORIN.items():
        theirs[name] = googlenet + resnet if rule == "sum" else max(googlenet, resnet)
        later[name] = max(googlenet, resnet)
        yield (
            f"| {name} | {googlenet:.3f} | {resnet:.3f} | {theirs[name]:.3f} ({rule}) "
            f"| {later[name]:.3f} |"
        )
    yield ""
    for what, values in (("the artifact's numbers", theirs), ("one metric", later)):
        others = {name: value for name, value in values.items() if name != "HaX-CoNN"}
        best = min(others, key=lambda name: others[name])
        change = 100 * (others[best] / values["HaX-CoNN"] - 1)
        yield (
            f"By {what} the best baseline is {best} with {others[best]:.3f} ms, HaX-CoNN has "
            f"{values['HaX-CoNN']:.3f} ms: {change:+.1f} %."
        )
        yield ""


def xavier_table(folder: Path) -> Iterator[str]:
    """Rows in Markdown of ``multi_dnn_expected.txt`` in a folder of recorded data.

    Its script adds the times of two networks for the first two schedules and takes the largest
    for the others. Of a sum S of two times the largest is between S / 2 and S; no more is recorded.
    """
    text = next(folder.glob("*multi_dnn_expected.txt")).read_text()
    yield (
        "| pair | GPU | GPU and DLA | Herald | H2H | HaX-CoNN | gain, printed | gain over Herald "
        "and H2H | gain over all, one metric |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for pair in published_rounds(text):
        gpu, both, herald, h2h, ours = (round(1e3 * time_s, 6) for time_s in pair.time_s.values())
        same = min(herald, h2h)
        least = min(gpu / 2, both / 2, same)
        most = min(gpu, both, same)
        yield (
            f"| {pair.pair} | {gpu} | {both} | {herald} | {h2h} | {ours} "
            f"| {100 * (pair.gain or 0):.1f} % "
            f"| {100 * (same / ours - 1):.1f} % "
            f"| {100 * (least / ours - 1):+.1f} to {100 * (most / ours - 1):+.1f} % |"
        )
