"""Requests that are sent to a server at once: one thread and one connection each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from mansard.core.errors import MansardError
from mansard.core.records import GenerationRequest
from mansard.inference.servers.connection import Connection
from mansard.inference.servers.endpoints import Endpoint
from mansard.inference.servers.interfaces import Prompt

_LOOK_S = 0.5  # between two looks whether the server still runs


def run_round(
    endpoint: Endpoint,
    prompts: Sequence[Prompt],
    n_tokens: int,
    check: Callable[[], None] = lambda: None,
) -> tuple[GenerationRequest, ...]:
    """Send the prompts at once and wait for all answers; raises the first error.

    Connections are open before any request is sent. ``check`` raises where the server has ended.
    An interrupt closes the connections, which ends the threads.
    """
    with ExitStack() as stack:
        connections = [stack.enter_context(Connection(endpoint.address)) for _ in prompts]
        if len(prompts) == 1:  # a thread less to wake
            return (endpoint.request(connections[0], prompts[0], n_tokens),)
        answers: dict[int, GenerationRequest | MansardError] = {}
        gate = threading.Barrier(len(prompts))

        def work(number: int) -> None:
            try:
                gate.wait()
                answers[number] = endpoint.request(connections[number], prompts[number], n_tokens)
            except MansardError as error:
                answers[number] = error

        threads = [
            threading.Thread(target=work, args=(number,), name=f"request {number}", daemon=True)
            for number in range(len(prompts))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_LOOK_S)
                check()
    results = [answers[number] for number in range(len(prompts))]
    for result in results:
        if isinstance(result, MansardError):
            raise result
    return tuple(result for result in results if isinstance(result, GenerationRequest))
