"""The one command that tells most after a report."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from mansard.analytics.report.opening import is_one_mode
from mansard.analytics.results import Results


@dataclass(frozen=True)
class NextStep:
    """What is to be done next, and the command that does it."""

    what: str
    command: str


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
    steps = (
        (not manifests, "Measure a machine of your own the same way", "mansard bench"),
        (
            any(each.machine.is_simulated for each in manifests),
            "Measure a real board over SSH",
            "mansard bench --mode all --host user@board",
        ),
        (
            any(each.is_serious for each in results.findings),
            "Measure again while nothing else runs",
            f"mansard bench{every} --runs quiet",
        ),
        (not networks, "Put a network under these roofs", "mansard bench model.onnx"),
        (is_jetson and is_one, "Measure the board's other modes", "mansard bench --mode all"),
        (
            not results.measured,
            "Run a network, to see how near it comes to the roofs",
            f"mansard measure {scored}",
        ),
        (
            bool(chosen) and not is_one,
            "Give the recommendation a limit",
            f"mansard recommend {limited} --min-fps 30",
        ),
        (True, "Put a network of yours under these roofs", "mansard bench model.onnx"),
    )
    return next(NextStep(what, command) for applies, what, command in steps if applies)
