"""The most useful next command of a report, and the machine that it is for."""

from __future__ import annotations

import shlex
from typing import Literal

from msgspec.structs import replace

from mansard.analytics.data.names import in_order, stage_of
from mansard.analytics.pages.results import Results
from mansard.core.hardware.machine_names import machine_words
from mansard.core.records import Record
from mansard.core.text import natural_key
from mansard.estimator import zoo

_ANSWER = 128  # tokens
About = Literal["here", "runs", "elsewhere"]


class NextStep(Record, frozen=True, kw_only=True):
    """The next step, and the command for it.

    ``about``: the folder of runs of the report ("runs"), that and its machine or board ("here"),
    or neither. ``first``: what has to be done before the command. ``where``: the board that a
    command "here" has to run on; empty: this machine, as far as can be told.
    """

    what: str
    command: str
    about: About
    first: str = ""
    where: str = ""

    @property
    def title(self) -> str:
        """What to do, and on which board."""
        return f"{self.what}, on {self.where}" if self.where else self.what

    def at(self, runs: str, options: str = "") -> str:
        """The command for the folder ``runs``; ``options`` name the board, as ``--host`` does."""
        is_named = self.about != "elsewhere" and runs != "runs"
        where = f" --runs {shlex.quote(runs)}" if is_named else ""
        return f"{self.command}{where}{options if self.about == 'here' else ''}"

    def line(self, runs: str, options: str = "") -> str:
        """As ``at``, after what has to be done first; without ``options`` with its place."""
        place = f" (on {self.where})" if self.where and not options else ""
        return ", then ".join(filter(None, (self.first, f"{self.at(runs, options)}{place}")))

    def on_page(self, results: Results) -> str:
        """The command on a page, which names no absolute path of the machine that wrote it."""
        places = results.dataset.locations
        is_named = len(places) == 1 and not places[0].startswith("/") and "://" not in places[0]
        return self.at(places[0] if is_named else "runs")


def next_step(results: Results) -> NextStep:
    """The first of these that applies, the most important first."""
    manifests = results.dataset.all_manifests
    is_one = is_one_mode(results)
    boards = in_order(
        [machine_words(run.machine.name) for run in manifests if run.machine.kind == "jetson"]
    )
    is_jetson = bool(boards)
    every = " --mode all" if is_jetson and not is_one else ""
    networks = sorted(results.networks["network"].unique().to_list(), key=natural_key)
    network = networks[0] if networks else "model.onnx"
    chosen = [
        answer.choice.network for answer in results.recommendations if answer.choice is not None
    ]
    stage = stage_of(chosen[0]) if chosen else None
    limited = f"{shlex.quote(chosen[0] if chosen else network)} --min-fps 30"
    if stage is not None:
        limited = f"{shlex.quote(stage[0])} --min-tokens-per-s 10"
    steps = (
        (
            all(run.machine.is_simulated for run in manifests),  # or nothing was measured
            NextStep(what="Measure your own machine", command="mansard bench", about="elsewhere"),
        ),
        (
            any(finding.is_serious for finding in results.findings),
            NextStep(
                what="Close other programs and measure again",
                command=f"mansard bench{every} --again",
                about="here",
                first="close other programs",
            ),
        ),
        (
            bool(results.measured) and not results.roofs,
            NextStep(
                what="Measure the roofs of these networks", command="mansard bench", about="here"
            ),
        ),
        (
            not networks,
            NextStep(what="Add a network", command="mansard bench model.onnx", about="here"),
        ),
        (
            is_jetson and is_one,
            NextStep(
                what="Measure the board's other modes",
                command="mansard bench --mode all",
                about="here",
            ),
        ),
        (
            not (results.measured or results.generations),
            NextStep(what="Run a network", command=measuring_command(network), about="here"),
        ),
        (
            bool(chosen) and not is_one,
            NextStep(
                what="Recommend a mode under a limit",
                command=f"mansard recommend {limited}",
                about="runs",
            ),
        ),
    )
    step = next((step for applies, step in steps if applies), _last_step(results, is_one=is_one))
    return replace(step, where=" or ".join(boards)) if step.about == "here" else step


def _last_step(results: Results, *, is_one: bool) -> NextStep:
    """Where nothing else applies: the reader's own network, and once it is here, other modes."""
    if all(zoo.has(score.model) for score in results.dataset.scores):
        command = "mansard bench model.onnx"
        return NextStep(what="Add your own network", command=command, about="here")
    if is_one:
        command = "mansard bench --mode all"
        return NextStep(what="Measure other modes", command=command, about="here")
    return NextStep(what="Add another network", command="mansard bench model.onnx", about="here")


def measuring_command(network: str) -> str:
    """What measures a network: of a language model its server, with the prompt of the stage."""
    stage = stage_of(network)
    if stage is None:
        return f"mansard measure {shlex.quote(network)}"
    model, kind, n_tokens = stage
    # Decode is measured in the middle of an answer.
    prompt = n_tokens if kind == "prefill" else max(1, n_tokens - _ANSWER // 2)
    return (
        f"mansard measure --server http://localhost:8080 --name {shlex.quote(model)} "
        f"--prompt {prompt} --generate {_ANSWER}"
    )


def is_one_mode(results: Results) -> bool:
    """Whether no device has two modes to choose between."""
    frames = (results.modes, results.predictions)
    keys = {key for frame in frames for key in frame.select("device", "mode").unique().iter_rows()}
    return len(keys) == len({device for device, _ in keys})
