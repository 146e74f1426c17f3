"""llama.cpp's own server, with a model of random weights: counts, its cache, its end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mansard.core.errors import MeasurementError, ProgramFailed
from mansard.inference.programs.supervisor import processes_below
from mansard.inference.servers.connection import Connection
from mansard.inference.servers.opening import OpenServer, open_server
from mansard.inference.servers.plan import Serving
from mansard.inference.servers.session import n_cached
from tests.inference.tiny_language_model import write_tiny_model
from tests.waiting import awaited

pytest.importorskip("xllamacpp", reason="llama.cpp is not installed: make llm")
pytest.importorskip("gguf", reason="the gguf library is not installed: make llm")
pytestmark = pytest.mark.llm

SERVER = str(Path(__file__).with_name("llama_server.py"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf")


@contextlib.contextmanager
def serving(model: Path, n_parallel: int = 1) -> Iterator[OpenServer]:
    words = (sys.executable, SERVER, str(model), "{port}", str(n_parallel))
    with open_server(Serving(command=words), lambda _line: None) as server:
        yield server


def test_it_counts_what_we_count(model: Path) -> None:
    with serving(model) as server:
        endpoint = server.endpoint
        assert (endpoint.server, endpoint.interface.name) == ("llama.cpp", "completion")
        assert server.prompts.counting == "tokeniser"
        for n_prompt, n_generate in ((1, 2), (100, 1), (700, 40)):
            with Connection(endpoint.address) as connection:
                prompt = server.prompts.make(n_prompt)
                request = endpoint.request(connection, prompt, n_generate)
            assert request.prompt_tokens == n_prompt
            assert request.generated_tokens == request.streamed_tokens == n_generate
            assert len(request.event_s) == n_generate
            assert request.cached_tokens == 0
            assert request.server_prompt_s is not None
            # What the server times lies within what we time.
            assert request.server_prompt_s <= request.event_s[0]


def test_the_cache_that_answers_a_repeated_prompt_is_seen(model: Path) -> None:
    with serving(model) as server, contextlib.ExitStack() as stack:
        prompt = server.prompts.make(64)
        answers = []
        for _ in range(2):
            connection = stack.enter_context(Connection(server.endpoint.address))
            answers.append(server.endpoint.request(connection, prompt, 4))
        assert [n_cached(one, 64) for one in answers] == [0, 63]  # the last token is always run


def test_nothing_of_it_is_left(model: Path) -> None:
    before = set(processes_below(os.getpid()))  # what other tests of this process left running
    with serving(model) as server:
        process = server.process
        assert process is not None
        assert process.load_s is not None
        resident_bytes = process.resident_bytes()
        assert resident_bytes is not None
        assert resident_bytes > model.stat().st_size
        children = set(processes_below(os.getpid())) - before
        assert len(children) >= 2  # the supervisor and the server
    assert awaited(lambda: not children & set(processes_below(os.getpid())))


def test_a_server_that_dies_is_one_line(model: Path) -> None:
    with serving(model) as server:
        (victim,) = [
            process
            for process, (_, _) in processes_below(os.getpid()).items()
            if SERVER.encode() in Path(f"/proc/{process}/cmdline").read_bytes()
            and b"supervisor" not in Path(f"/proc/{process}/cmdline").read_bytes()
        ]
        os.kill(victim, signal.SIGKILL)
        assert awaited(lambda: victim not in processes_below(os.getpid()))
        with pytest.raises(MeasurementError, match="the server has ended with exit code 137"):
            server.check()


def test_a_server_that_cannot_start_is_one_line(tmp_path: Path) -> None:
    missing = tmp_path / "no-such.gguf"
    with pytest.raises(MeasurementError, match="the server has ended") as caught, serving(missing):
        pass
    assert "\n" not in str(caught.value)
    nothing = Serving(command=("no-such-server", "{port}"))
    with (
        pytest.raises(ProgramFailed, match="cannot be run: no such file"),
        open_server(nothing, lambda _line: None),
    ):
        pass
