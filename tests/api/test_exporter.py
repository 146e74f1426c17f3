"""Metrics of watched boards: names, values, what is absent, and addresses."""

from __future__ import annotations

import contextlib
import platform
import re
import resource
import socket
import urllib.request
from pathlib import Path

import msgspec
import pytest

from mansard import api
from mansard.api import results
from mansard.api.exporter import MOST_CONNECTIONS
from mansard.core.connections import parse_listen
from mansard.core.errors import DeviceError, UsageError
from mansard.core.records import BoardSample
from mansard.device.system import read_text
from mansard.device.watching import BoardWatch
from mansard.simulator import create_board
from tests.waiting import awaited

NANO = 'board="nano",host="nano"'
_HOST = re.compile(r'(board="[^"]*")(.*),(host="[^"]*")')  # labels are sorted; it comes second here


@pytest.fixture
def sample(tmp_path: Path) -> BoardSample:
    watch = BoardWatch(
        create_board("orin-nano-super", tmp_path), "nano", clock=iter((0, 2)).__next__
    )
    watch.read()
    return watch.read()


def scrape(exporter: results.Exporter) -> dict[str, str]:
    text = urllib.request.urlopen(exporter.address, timeout=10).read().decode()  # noqa: S310 - our own
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {_HOST.sub(r"\1,\3\2", name): value for name, _, value in lines}


def test_metrics_have_base_units_and_labels(sample: BoardSample) -> None:
    with api.export_metrics("127.0.0.1:0", are_hosts=True) as exporter:
        exporter.take(sample)
        found = scrape(exporter)
    assert found[f"mansard_up{{{NANO}}}"] == "1.0"
    assert found[f'mansard_board_info{{{NANO},mode="25W",source="simulated"}}'] == "1.0"
    assert found[f'mansard_gpu_clock_limit_hertz{{{NANO},gpu="gpu"}}'] == "9.18e+08"
    assert found[f'mansard_cpu_clock_limit_hertz{{{NANO},cpu="5"}}'] == "1.344e+09"
    assert found[f'mansard_temperature_celsius{{{NANO},zone="cpu-thermal"}}'] == "35.0"
    assert found[f'mansard_rail_power_watts{{{NANO},rail="VDD_IN"}}'] == "4.1664"
    assert found[f"mansard_power_watts{{{NANO}}}"] == "4.1664"
    assert found[f'mansard_throttled{{{NANO},cause="thermal"}}'] == "0.0"
    assert float(found[f'mansard_rail_energy_joules_total{{{NANO},rail="VDD_IN"}}']) > 0


def test_identical_boards_differ_in_their_host(sample: BoardSample) -> None:
    """Ten boards of one model, each with an exporter of its own, or all behind one."""
    first, second = (msgspec.structs.replace(sample, board=name) for name in ("orin-1", "orin-2"))
    with api.export_metrics("127.0.0.1:0", are_hosts=True) as exporter:
        exporter.take(first)
        exporter.take(second)
        found = scrape(exporter)
    series = {name for name in found if name.startswith("mansard_power_watts")}
    assert series == {
        'mansard_power_watts{board="orin-1",host="orin-1"}',
        'mansard_power_watts{board="orin-2",host="orin-2"}',
    }
    model = msgspec.structs.replace(sample, board="NVIDIA Jetson Orin Nano")
    with api.export_metrics("127.0.0.1:0") as exporter:
        exporter.take(model)
        found = scrape(exporter)
    board = f'board="NVIDIA Jetson Orin Nano",host="{platform.node()}"'
    assert found[f"mansard_power_watts{{{board}}}"] == "4.1664"


def n_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_idle_connections_are_few_and_end(sample: BoardSample) -> None:
    with (
        api.export_metrics("127.0.0.1:0", are_hosts=True) as exporter,
        contextlib.ExitStack() as stack,
    ):
        exporter.take(sample)
        port = int(exporter.address.rpartition(":")[2].partition("/")[0])
        before = n_descriptors()
        idle = []
        for _ in range(60):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            with contextlib.suppress(OSError):
                one.sendall(b"GET /m")
            idle.append(one)

        def closed() -> bool:
            # Each side has a descriptor of an open connection; 16 of ours are open at most.
            return n_descriptors() - before <= 60 + MOST_CONNECTIONS

        assert awaited(closed)
        for one in idle:  # those that were let in are closed as well
            with contextlib.suppress(ConnectionError):
                assert one.recv(1 << 16)[:4] in {b"", b"HTTP"}
        assert awaited(lambda: n_descriptors() - before <= 60)
        assert scrape(exporter)[f"mansard_up{{{NANO}}}"] == "1.0"


def test_want_of_descriptors_is_no_fact_about_a_file(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 1 kB")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(DeviceError, match=r"too many open files; .*ulimit -n"):
            read_text(tmp_path / "meminfo")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert read_text(tmp_path / "meminfo") == "MemTotal: 1 kB"


def test_what_is_unknown_is_not_there(sample: BoardSample) -> None:
    # 7802880 kB less 6242304 kB of memory are known; no share of the CPUs' time is.
    with api.export_metrics("127.0.0.1:0", are_hosts=True) as exporter:
        exporter.take(
            msgspec.structs.replace(
                sample,
                power_w=None,
                n_throttle_events=None,
                unknown={"power_w": "no meter", "n_throttle_events": "no cooling device"},
            )
        )
        found = scrape(exporter)
    assert found[f"mansard_memory_used_bytes{{{NANO}}}"] == "1.598029824e+09"
    names = {name.partition("{")[0] for name in found}
    assert not names & {"mansard_power_watts", "mansard_throttle_events_total"}
    assert "mansard_cpu_busy_ratio" not in names
    assert not [name for name in found if "mansard_throttled" in name and "thermal" in name]


def test_a_board_that_is_lost_has_no_numbers(sample: BoardSample) -> None:
    with api.export_metrics("127.0.0.1:0", are_hosts=True) as exporter:
        exporter.take(sample)
        exporter.lose("nano")
        assert scrape(exporter) == {f"mansard_up{{{NANO}}}": "0.0"}


def test_addresses() -> None:
    assert parse_listen("--prometheus", ":9100") == ("127.0.0.1", 9100)
    assert parse_listen("--prometheus", "9100") == ("127.0.0.1", 9100)
    assert parse_listen("--prometheus", "0.0.0.0:9100") == ("0.0.0.0", 9100)  # noqa: S104 - as asked for
    assert parse_listen("--prometheus", "[::1]:9100") == ("::1", 9100)
    for text in ("nine", ":65536", "http://here:1", ""):
        with pytest.raises(UsageError, match="is not an address"):
            parse_listen("--prometheus", text)


def test_a_port_that_is_taken() -> None:
    with api.export_metrics("127.0.0.1:0", are_hosts=True) as exporter:
        port = exporter.address.rpartition(":")[2].partition("/")[0]
        with (
            pytest.raises(DeviceError, match="cannot listen there: address already in use"),
            api.export_metrics(f"127.0.0.1:{port}"),
        ):
            pass
