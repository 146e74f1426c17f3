"""A server that answers: started where it has a command, its interface and prompts made ready."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import msgspec

from mansard.core.errors import UsageError
from mansard.inference.servers.connection import Address, is_listening
from mansard.inference.servers.endpoints import Endpoint, find_endpoint
from mansard.inference.servers.plan import Serving, new_seed
from mansard.inference.servers.process import PORT, ServerProcess, free_port, started
from mansard.inference.servers.prompts import Prompts, find_prompts


@dataclass(frozen=True)
class OpenServer:
    """A server that answers."""

    endpoint: Endpoint
    prompts: Prompts
    seed: int
    process: ServerProcess | None  # None: it was not started here

    def check(self) -> None:
        """Raises MeasurementError where the server has ended."""
        if self.process is not None:
            self.process.check()


def identified(serving: Serving) -> Serving:
    """``serving`` with model and version, which a running server is asked for.

    Unchanged where the server is yet to be started. Raises MeasurementError where it does not
    answer.
    """
    if serving.command or serving.address is None:
        return serving
    endpoint = find_endpoint(serving.address, serving.model)
    return msgspec.structs.replace(
        serving, model=endpoint.model, server=endpoint.server, server_version=endpoint.version
    )


@contextmanager
def open_server(serving: Serving, say: Callable[[str], object]) -> Iterator[OpenServer]:
    """The server, started where it has a command; raises MeasurementError, ProgramFailed."""
    with ExitStack() as stack:
        address, process = serving.address, None
        if serving.command:
            if address is not None and is_listening(address):
                raise UsageError(
                    f"something listens at {address.shown} before --start has started it",
                    fix="end it, or leave --start out to measure it",
                )
            port = free_port() if address is None else address.port
            address = address or Address("http", "127.0.0.1", port, "")
            command = [word.replace(PORT, str(port)) for word in serving.command]
            process = stack.enter_context(started(command, serving.folder))
            process.wait_until_healthy(address, say)
        if address is None:
            raise UsageError("a server needs an address or a command", fix="--server URL")
        endpoint = find_endpoint(address, serving.model)
        endpoint = replace(endpoint, context_tokens=serving.context_tokens)
        seed = new_seed()
        prompts = find_prompts(endpoint, seed)
        if prompts.counting == "usage":
            say(
                "the server has no tokeniser: the prompts' lengths are found by the counts of "
                "its answers"
            )
        yield OpenServer(endpoint, prompts, seed, process)
