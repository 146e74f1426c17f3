"""Reads logs or a running tegrastats once, and hands every line to what is made of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from mansard.cli.telemetry_output import Output, open_output
from mansard.cli.telemetry_request import Request
from mansard.core.errors import InputError
from mansard.core.records import Source
from mansard.device.identity import is_simulated
from mansard.device.jetson import find_module
from mansard.device.tegrastats import TegrastatsSample
from mansard.device.tegrastats.files import read_lines
from mansard.device.tegrastats.live import live
from mansard.device.tegrastats.parse import BATCH
from mansard.device.tegrastats.summary import Summariser, summarise
from mansard.device.tegrastats.times import Moment

_ARRIVAL_S = 1e-3  # how well a line's arrival tells when it was measured


def run_telemetry(request: Request) -> bool:
    """Do what ``request`` asks; False if an interrupt ended --live."""
    with open_output(request) as output:
        if not request.logs:
            return _follow(request, output)
        module = find_module(request.root) if request.has_board else None
        for log in request.logs:
            summariser = Summariser(request.interval_s, module)
            each = _taker(output, str(log))
            n_ahead = BATCH if log.is_file() else 1  # a pipe's lines are shown as they come
            output.finish_log(
                summarise(read_lines(log), str(log), summariser, each, n_ahead=n_ahead)
            )
    return True


def _follow(request: Request, output: Output) -> bool:
    """Take lines as they come until --duration or an interrupt, then finish with what came."""
    source: Source = "simulated" if is_simulated(request.root) else "measured"
    summariser = Summariser(None, find_module(request.root), source)
    start_s: float | None = None
    was_interrupted = False
    with contextlib.ExitStack() as stack:
        try:
            lines = stack.enter_context(
                live(request.root, request.interval_s or 0.0, request.duration_s)
            )
            for arrived_s, sample in lines:
                start_s = arrived_s if start_s is None else start_s
                moment = Moment(arrived_s - start_s, _ARRIVAL_S)
                summariser.add(sample, moment)
                output.take(sample, "live", moment.time_s)
        except KeyboardInterrupt:
            was_interrupted = True
    if start_s is None:
        if was_interrupted:
            raise KeyboardInterrupt
        raise InputError("no line came within --duration", fix="give it longer")
    output.finish_log(summariser.summary("live"))
    return not was_interrupted


def _taker(output: Output, log: str) -> Callable[[TegrastatsSample, Moment | None], None]:
    def take(sample: TegrastatsSample, moment: Moment | None) -> None:
        output.take(sample, log, moment.time_s if moment is not None else None)

    return take
