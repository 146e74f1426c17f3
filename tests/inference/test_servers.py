"""Servers of language models: what is asked of them, and what is made of their answers."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import MansardError, MeasurementError, UsageError
from mansard.core.records import GenerationRequest, GenerationRound, GenerationRun
from mansard.device.conditions import find_sources
from mansard.device.identity import identify
from mansard.device.meters.meter import NO_METERS, Meters
from mansard.device.power_modes.selection import choose_modes
from mansard.device.system import SYSTEM_ROOT
from mansard.device.totals import Total
from mansard.inference.programs.plan import program_protocol
from mansard.inference.servers.connection import Streamed, TimedLine, ask, parse_address
from mansard.inference.servers.endpoints import Endpoint, find_endpoint
from mansard.inference.servers.interfaces import COMPLETIONS, LLAMA, OLLAMA, read_request
from mansard.inference.servers.opening import open_server
from mansard.inference.servers.plan import (
    GenerationPlan,
    Lengths,
    Serving,
    parse_counts,
    parse_start,
    plan_trials,
)
from mansard.inference.servers.prompts import VariedDraws
from mansard.inference.servers.session import n_cached
from mansard.inference.servers.trial import measure_generation
from mansard.measuring.instruments import Instruments
from tests.device.replay_meters import TraceMeter
from tests.inference.replayed_server import Replayed, replaying
from tests.measuring.metered_windows import windows_read


def endpoint_of(replayed: Replayed, model: str | None = None) -> Endpoint:
    with replaying(replayed) as address:
        return find_endpoint(parse_address(address), model)


def measure(
    replayed: Replayed,
    *,
    prompt: int = 8,
    generate: int = 4,
    concurrency: int = 1,
    n_rounds: int = 2,
    meters: Meters = NO_METERS,
    root: Path = SYSTEM_ROOT,
) -> GenerationRun:
    """One trial against a replayed server."""
    machine = identify(SYSTEM_ROOT)
    (mode,) = choose_modes(None, SYSTEM_ROOT, machine)
    with replaying(replayed) as text:
        lengths = Lengths((prompt,), (generate,), (concurrency,))
        serving = Serving(
            address=parse_address(text), name="test", context_tokens=lengths.context_tokens
        )
        trials = plan_trials(serving, lengths)
        plan = GenerationPlan(
            profile="brief",
            machine=machine,
            processor="cpu",
            gpu=None,
            mode=mode,
            cpus=machine.cpus,
            trials=trials,
            protocol=program_protocol("brief", n_rounds),
            seed=0,
            versions={},
            unknown={"gpu": "not looked for"},
        )
        instruments = Instruments(
            root=root,
            mode=mode,
            sources=find_sources(root, plan.cpus),
            meters=meters,
            keep=lambda _sample: None,
            gpu=None,
        )
        with open_server(serving, lambda _line: None) as server:
            return measure_generation(trials[0], plan, instruments, server)


def test_vllm_is_asked_with_ids_of_tokens_and_counts_them() -> None:
    replayed = Replayed()
    row = measure(replayed, prompt=8, generate=4)
    assert (row.server, row.server_version, row.model) == ("vllm", "0.11", "org/tiny")
    assert (row.api, row.prompt_counting) == ("completions", "tokeniser")
    assert len(row.rounds) == 3  # the warm-up and two
    assert [one.rejected for one in row.rounds] == ["the first round, which warms up", "", ""]
    for one in row.rounds:
        (request,) = one.requests
        assert len(request.event_s) == request.streamed_tokens == request.generated_tokens == 4
        assert (request.prompt_tokens, request.cached_tokens) == (8, 0)
        assert request.server_prompt_s is None
    body = replayed.bodies[-1]
    assert len(body["prompt"]) == 8
    assert (body["max_tokens"], body["ignore_eos"], body["temperature"]) == (4, True, 0)
    assert body["stream_options"] == {"include_usage": True}


def test_prompts_do_not_begin_alike() -> None:
    replayed = Replayed()
    measure(replayed, concurrency=3, n_rounds=5)
    firsts = [tuple(body["prompt"][:1]) for body in replayed.bodies[1:]]  # the first is a probe
    assert len(firsts) == 18
    assert len(set(firsts)) == 18


def test_ollama_has_its_own_timings_and_no_tokeniser() -> None:
    replayed = Replayed(is_ollama=True, models=("tiny:latest",))
    row = measure(replayed, prompt=20, generate=5)
    # 20 and 5 tokens and 256 to spare, in steps of 256: its default would cut longer prompts.
    options = {"num_predict": 5, "temperature": 0, "num_ctx": 512}
    assert replayed.bodies[-1]["options"] == options
    assert (row.server, row.server_version, row.model) == ("ollama", "0.13.1", "tiny:latest")
    assert (row.api, row.prompt_counting) == ("generate", "usage")
    (request,) = row.rounds[-1].requests
    assert (request.prompt_tokens, request.generated_tokens) == (20, 5)
    assert request.server_prompt_s == pytest.approx(0.02)
    assert request.server_decode_s == pytest.approx(0.09)


def test_without_a_tokeniser_words_are_counted_until_they_fit() -> None:
    # The template of the chat has 7 tokens: of 30, 23 are words.
    replayed = Replayed(
        paths=("/v1/chat/completions",), template_tokens=7, owner="sglang", has_tokeniser=False
    )
    row = measure(replayed, prompt=30)
    assert (row.api, row.server) == ("chat", "sglang")
    assert all(request.prompt_tokens == 30 for one in row.rounds for request in one.requests)
    assert len(replayed.bodies[-1]["messages"][0]["content"].split()) == 23
    with pytest.raises(MeasurementError, match="no text of 5 tokens could be made"):
        measure(replayed, prompt=5)


def test_a_server_that_counts_nothing_is_refused() -> None:
    with pytest.raises(MeasurementError, match="neither splits a text into tokens nor counts"):
        measure(Replayed(has_tokeniser=False, counts=False))


@pytest.mark.parametrize("refused", [("ignore_eos",), ("ignore_eos", "stream_options")])
def test_a_field_that_a_server_refuses_is_left_out(refused: tuple[str, ...]) -> None:
    replayed = Replayed(refused_fields=refused)
    row = measure(replayed)
    assert not set(refused) & set(row.options)
    assert "temperature" in row.options


def test_an_answer_of_a_prefix_cache_is_no_round() -> None:
    # Request 0 is the probe, 1 the warm-up; of 2 to 4 the cache has some of 3.
    row = measure(Replayed(cached=lambda number: 5 if number == 3 else 0), n_rounds=2)
    assert [bool(one.rejected) for one in row.rounds] == [True, False, True, False]
    assert row.rounds[2].rejected == "a prefix cache answered 5 of 8 tokens of the prompts"
    assert row.disturbances == ()
    every = measure(Replayed(cached=lambda _number: 8))
    assert every.counted == ()
    assert any("no round counts" in why for why in every.disturbances)


def test_a_prompt_that_a_server_did_not_read_whole_was_cached() -> None:
    # Request 0 counts words, 1 is the warm-up. Ollama leaves the count out where all was cached.
    row = measure(
        Replayed(is_ollama=True, cached=lambda number: 20 if number > 1 else 0),
        prompt=20,
        n_rounds=1,
    )
    assert row.rounds[-1].rejected == "a prefix cache answered 20 of 20 tokens of the prompts"
    assert n_cached(row.rounds[-1].requests[0], 20) == 20


@pytest.mark.parametrize(
    ("replayed", "line"),
    [
        (Replayed(status=500), "the server answered 500 to /v1/completions: the engine is out of"),
        (Replayed(status=401, message="no key"), "answered 401 to /v1/completions: no key"),
        (Replayed(stops_after=2), "stream of the server ended in the middle, after 2 events"),
        (Replayed(stops_after=0), "stream of the server ended without a token"),
        (Replayed(error_after=1), "the server gave up an answer: CUDA error: out of memory"),
        (Replayed(models=()), "the server has no model; it has none"),
        (Replayed(models=("a", "b")), "the server has several models; it has a, b"),
        (Replayed(paths=()), "the server answered 404 to /v1/chat/completions: Not Found"),
    ],
)
def test_what_a_server_says_is_one_line(replayed: Replayed, line: str) -> None:
    with pytest.raises(MeasurementError, match=line) as caught:
        measure(replayed)
    assert "\n" not in str(caught.value)


def test_a_model_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(MeasurementError, match="no model 'c'; it has a, b; name one of them"):
        endpoint_of(Replayed(models=("a", "b")), "c")
    assert endpoint_of(Replayed(models=("a", "b")), "b").model == "b"
    assert endpoint_of(Replayed(is_ollama=True, models=("x:latest",)), "x").model == "x:latest"


def test_a_server_that_is_not_there_is_one_line() -> None:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(MeasurementError, match="cannot be reached: connection refused"):
        find_endpoint(parse_address(f"localhost:{port}"), None)


def test_a_silent_server_is_one_line() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = parse_address(f"localhost:{silent.getsockname()[1]}")
        with pytest.raises(MeasurementError, match=r"no answer to /x: it was silent for 0.2 s"):
            ask(address, "GET", "/x", timeout_s=0.2)


def test_what_is_no_server_of_a_language_model_is_said(tmp_path: Path) -> None:
    replayed = Replayed()
    replayed.models = ()
    with replaying(replayed) as address, pytest.raises(MeasurementError, match="404 to /v1/models"):
        find_endpoint(parse_address(f"{address}/somewhere"), None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("localhost:8000", "http://localhost:8000"),
        ("http://orin:8080/v1/", "http://orin:8080"),
        ("https://host/api/llm/v1", "https://host:443/api/llm"),
        ("http://[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_addresses(text: str, shown: str) -> None:
    assert parse_address(text).shown == shown


@pytest.mark.parametrize(
    "text", ["", "ftp://a", "http://u:secret@host", "http://a:b", "http://h?k=v"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_address(text)
    assert "secret" not in str(caught.value)


def test_commands_that_start_a_server() -> None:
    assert parse_start("llama-server -m 'a b.gguf' --port {port}", None)[2] == "a b.gguf"
    for text in ("", "llama-server", "llama-server 'open {port}"):
        with pytest.raises(UsageError):
            parse_start(text, None)
    assert parse_start("serve", parse_address("localhost:1"))
    assert parse_counts("--prompt", "1,2") == (1, 2)
    with pytest.raises(UsageError, match="--prompt 'x' is not a list of numbers"):
        parse_counts("--prompt", "x")


def stream_of(*lines: str, period_s: float = 0.5) -> Streamed:
    """Lines that arrive every ``period_s`` after they were asked for at 100 s."""
    timed = [TimedLine(100 + period_s * (at + 1), line.encode()) for at, line in enumerate(lines)]
    return Streamed(100.0, timed, 100 + period_s * (len(lines) + 1))


def test_llama_events_are_timed_and_counted_by_their_ids() -> None:
    request = read_request(
        LLAMA,
        stream_of(
            'data: {"content": "a", "tokens": [1], "stop": false}',
            'data: {"content": "", "tokens": [], "stop": false}',
            'data: {"content": "bc", "tokens": [2, 3], "stop": false}',
            'data: {"content": "", "tokens": [], "stop": true, "tokens_evaluated": 10, '
            '"timings": {"cache_n": 4, "prompt_n": 6, "prompt_ms": 200.0, "predicted_n": 3, '
            '"predicted_ms": 900.0}}',
        ),
        "here",
    )
    assert request.event_s == (0.5, 1.5)
    assert (request.streamed_tokens, request.generated_tokens) == (3, 3)
    assert (request.prompt_tokens, request.cached_tokens) == (10, 4)
    assert (request.server_prompt_s, request.server_decode_s) == (0.2, 0.9)
    # Two events of three tokens: (1.5 - 0.5) / (3 - 1).
    assert request.token_s == 0.5


@given(st.lists(st.text(max_size=30), max_size=8))
def test_any_lines_are_a_request_or_one_line(texts: list[str]) -> None:
    streamed = stream_of(*texts, 'data: {"choices": [{"text": "x", "finish_reason": "stop"}]}')
    for interface in (COMPLETIONS, LLAMA, OLLAMA):
        problem = ""
        try:
            read_request(interface, streamed, "here")
        except MansardError as error:
            problem = str(error)
        assert "\n" not in problem


def request(sent_s: float, *event_s: float) -> GenerationRequest:
    n_tokens = len(event_s)
    counts = {"prompt_tokens": 8, "cached_tokens": 0, "generated_tokens": n_tokens}
    timings = ("server_prompt_s", "server_decode_s")
    return GenerationRequest(
        sent_s=sent_s,
        event_s=event_s,
        end_s=event_s[-1],
        streamed_tokens=n_tokens,
        server_prompt_s=None,
        server_decode_s=None,
        unknown=dict.fromkeys(timings, "none"),
        **counts,
    )


def round_of(*requests: GenerationRequest) -> GenerationRound:
    return GenerationRound(
        requests=requests,
        rejected="",
        prefill=None,
        decode=None,
        whole=None,
        unknown=dict.fromkeys(("prefill", "decode", "whole"), "none"),
    )


def test_the_phases_of_a_round_meet_at_the_last_first_token() -> None:
    # Sent at 10.0 and 10.1; first tokens at 11.0 and 12.1, so the decode begins at 12.1. Of the
    # first request's four later tokens (11.5, 12.0, 12.5, 13.0) two come before.
    one = round_of(request(10.0, 1.0, 1.5, 2.0, 2.5, 3.0), request(10.1, 2.0, 2.4))
    assert (one.start_s, one.decode_start_s, one.end_s) == (10.0, 12.1, 13.0)
    assert one.decoded_tokens == 3
    assert one.overlap == pytest.approx(1 - 3 / 5)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1),
            st.lists(st.floats(0.001, 5), min_size=2, max_size=6).map(sorted),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_no_token_is_in_both_phases(raw: list[tuple[float, list[float]]]) -> None:
    one = round_of(*(request(sent_s, *event_s) for sent_s, event_s in raw))
    assert one.start_s <= one.decode_start_s <= one.end_s
    n_after = sum(r.n_tokens - 1 for r in one.requests)
    assert 0 <= one.decoded_tokens <= n_after
    assert 0 <= one.overlap <= 1
    if len(raw) == 1 and len(set(raw[0][1])) == len(raw[0][1]):
        assert one.decoded_tokens == n_after  # one request: its phases are apart


@given(st.integers(2, 30), st.integers(1, 50), st.integers())
def test_first_items_differ_until_all_had_their_turn(n_pool: int, n_drawn: int, seed: int) -> None:
    drawn = VariedDraws(range(n_pool), seed)
    firsts = [drawn.draw(3)[0] for _ in range(n_drawn)]
    for at in range(0, n_drawn, n_pool):
        turn = firsts[at : at + n_pool]
        assert len(set(turn)) == len(turn)


def rising_meters(period_s: float = 0.01) -> tuple[Meters, TraceMeter]:
    """One rail of 10 W now and 5 W more each second."""
    meter = TraceMeter({"VDD_IN": ((0.0, 10.0), (100.0, 510.0))}, period_s)
    return Meters((meter,), {}, Total(("VDD_IN",), "VDD_IN alone", "the module")), meter


def test_energies_are_those_of_each_phase() -> None:
    meters, meter = rising_meters()
    replayed = Replayed(first_delay_s=0.4, delay_s=0.05)
    row = measure(replayed, prompt=8, generate=9, n_rounds=1, meters=meters)
    one = row.rounds[-1]
    for window, start_s, end_s, n_tokens in (
        (one.prefill, one.start_s, one.decode_start_s, 8),
        (one.decode, one.decode_start_s, one.end_s, 8),
        (one.whole, one.start_s, one.end_s, 9),
    ):
        assert window is not None
        assert (window.start_s, window.repetitions) == (start_s, n_tokens)
        assert window.window_s == pytest.approx(end_s - start_s)
        for read in windows_read([window]):
            # Power is linear: its mean is that of the middle of the window.
            middle_w = 10 + 5 * ((start_s + end_s) / 2 - meter.start_s)
            assert read.total_j == pytest.approx(middle_w * (end_s - start_s), rel=0.02)
    if one.prefill is not None and one.prefill.total_j is not None:
        assert row.unknown["prefills"] == "the prefills of the rounds have energies"
    assert one.start_s < one.decode_start_s < one.end_s


def test_short_prefills_are_metered_one_after_the_other() -> None:
    meters, meter = rising_meters(0.05)  # twenty readings, which an energy takes, are a second
    row = measure(Replayed(first_delay_s=0.05), prompt=8, generate=2, n_rounds=1, meters=meters)
    assert row.rounds[-1].prefill is not None
    assert row.rounds[-1].prefill.total_j is None
    assert row.prefills is not None
    (window,) = row.prefills
    assert window.repetitions % 8 == 0
    assert window.repetitions >= 16
    for read in windows_read([window]):
        middle_w = 10 + 5 * (read.start_s + read.window_s / 2 - meter.start_s)
        assert read.total_j == pytest.approx(middle_w * read.window_s, rel=0.02)


def test_phases_that_overlap_have_one_energy() -> None:
    # Of two requests at once the second has its first token when the first has all of its own.
    replayed = Replayed(delay_s=0.01, lags=True)
    row = measure(replayed, generate=6, concurrency=2, n_rounds=1)
    one = row.rounds[-1]
    assert one.overlap == pytest.approx(0.5)
    assert one.prefill is None
    assert one.unknown["prefill"].startswith("the phases overlap: 50% of the tokens")


def test_the_server_on_the_gpu_is_no_other_process(tmp_path: Path) -> None:
    clients = tmp_path / "sys/kernel/debug/nvmap/iovmm/clients"
    clients.parent.mkdir(parents=True)
    head = "CLIENT                        PROCESS      PID        SIZE\n"
    served = f"{head}user                          vllm         123        1000K\n"
    clients.write_text(served)
    assert measure(Replayed(), root=tmp_path).disturbances == ()

    def another(number: int) -> int:
        if number >= 2:  # after the probe and the warm-up
            clients.write_text(f"{served}user   trainer   77   1000K\n")
        return 0

    row = measure(Replayed(cached=another), root=tmp_path)
    assert row.disturbances == ("another process on the GPU: trainer (77)",)
    assert set(row.conditions.gpu_processes or ()) == {"trainer (77)", "vllm (123)"}
