"""The one command that tells most after a report."""

from __future__ import annotations

import shlex
from typing import Literal

from mansard.analytics.pages.report.opening import is_one_mode
from mansard.analytics.pages.results import Results
from mansard.core.records import Record

About = Literal["here", "runs", "board", "elsewhere"]


class NextStep(Record, frozen=True, kw_only=True):
    """What is to be done next, and the command that does it.

    ``about``: the folder of runs of the report ("runs"), its machine or board ("board"), both
    ("here") or neither.
    """

    what: str
    command: str
    about: About

    def at(self, runs: str, options: str = "") -> str:
        """The command for the folder ``runs``; ``options`` name the board, as ``--host`` does."""
        is_told = self.about in {"here", "runs"} and runs != "runs"
        where = f" --runs {shlex.quote(runs)}" if is_told else ""
        return f"{self.command}{where}{options if self.about in {'here', 'board'} else ''}"

    def on_page(self, results: Results) -> str:
        """The command on a page, which names no absolute path of the machine that wrote it."""
        places = results.dataset.locations
        is_told = len(places) == 1 and not places[0].startswith("/") and "://" not in places[0]
        return self.at(places[0] if is_told else "runs")


def next_step(results: Results) -> NextStep:
    """The first of these that applies: what is missing most stands first."""
    manifests = results.dataset.all_manifests
    is_one = is_one_mode(results)
    is_jetson = any(each.machine.kind == "jetson" for each in manifests)
    every = " --mode all" if is_jetson and not is_one else ""
    networks = sorted(results.networks["network"].unique().to_list())
    scored = shlex.quote(networks[0]) if networks else "model.onnx"
    chosen = [each.choice.network for each in results.recommendations if each.choice is not None]
    limited = shlex.quote(chosen[0]) if chosen else scored
    steps: tuple[tuple[bool, str, str, About], ...] = (
        (
            all(each.machine.is_simulated for each in manifests),  # or nothing was measured
            "Measure a machine of your own the same way",
            "mansard bench",
            "elsewhere",
        ),
        (
            any(each.is_serious for each in results.findings),
            "Measure again while nothing else runs",
            f"mansard bench{every} --runs quiet",
            "board",
        ),
        (not networks, "Put a network under these roofs", "mansard bench model.onnx", "here"),
        (
            is_jetson and is_one,
            "Measure the board's other modes",
            "mansard bench --mode all",
            "here",
        ),
        (
            not results.measured,
            "Run a network, to see how near it comes to the roofs",
            f"mansard measure {scored}",
            "here",
        ),
        (
            bool(chosen) and not is_one,
            "Give the recommendation a limit",
            f"mansard recommend {limited} --min-fps 30",
            "runs",
        ),
        (True, "Put a network of yours under these roofs", "mansard bench model.onnx", "here"),
    )
    _, what, command, about = next(step for step in steps if step[0])
    return NextStep(what=what, command=command, about=about)
