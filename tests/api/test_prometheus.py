"""A real Prometheus scrapes a watched board and answers queries; skips where there is none."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mansard import api
from mansard.device.watching import BoardWatch
from mansard.simulator import create_board
from tests.waiting import awaited

PROMETHEUS = shutil.which("prometheus")
pytestmark = pytest.mark.skipif(
    PROMETHEUS is None, reason="needs Prometheus ('make prometheus'; Debian: prometheus)"
)
DASHBOARD = Path(__file__).resolve().parents[2] / "examples/grafana/boards.json"
CONFIGURATION = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: boards
    static_configs: [{{targets: ["{target}"]}}]
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(port: int, query: str) -> list[dict[str, Any]]:
    """The answer to a query over Prometheus' HTTP API; empty while it has none."""
    words = urllib.parse.urlencode({"query": query})
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/api/v1/query?{words}", timeout=10
        ) as answer:
            found = json.load(answer)
    except (urllib.error.URLError, ConnectionError):
        return []
    assert found["status"] == "success"
    rows: list[dict[str, Any]] = found["data"]["result"]
    return rows


@pytest.fixture
def port(tmp_path: Path, start: Callable[..., subprocess.Popen[str]]) -> Iterator[int]:
    """The port of a Prometheus that scrapes a simulated AGX Orin, called ``orin``."""
    watch = BoardWatch(create_board("agx-orin", tmp_path), "orin")
    watch.read()
    port = free_port()
    with api.export_metrics("127.0.0.1:0", are_hosts=True) as exporter:
        exporter.take(watch.read())
        target = exporter.address.removeprefix("http://").removesuffix("/metrics")
        settings = tmp_path / "prometheus.yml"
        settings.write_text(CONFIGURATION.format(target=target))
        start(
            [
                str(PROMETHEUS),
                f"--config.file={settings}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert awaited(lambda: ask(port, "count(mansard_cpu_clock_hertz)") != [])
        yield port


def test_a_real_prometheus_scrapes_a_board(port: int) -> None:
    # 8 of the 12 cores are on in mode 30W.
    (cores,) = ask(port, "count(mansard_cpu_clock_hertz)")
    assert cores["value"][1] == "8"
    (power,) = ask(port, 'sum(mansard_rail_power_watts{rail!="VDDQ_VDD2_1V8AO"})')
    (total,) = ask(port, "mansard_power_watts")
    # The rule of the board: the memory's rail is fed from another and not added.
    assert float(power["value"][1]) == pytest.approx(float(total["value"][1]))
    assert total["metric"]["board"] == "orin"
    (up,) = ask(port, 'up{job="boards"}')
    assert up["value"][1] == "1"
    # Nothing moves on this board: the CPUs' shares are unknown, and there is no such metric.
    assert ask(port, "mansard_cpu_busy_ratio") == []


def test_the_dashboard_asks_for_metrics_that_exist(port: int) -> None:
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(queries) > 10
    # Shares need two looks at a board that moves; an increase needs two scrapes. Prometheus
    # refuses what it cannot parse, and ``ask`` fails then.
    waits = ("_busy_ratio", "increase(")
    for query in queries:
        rows = ask(port, query.replace("$host", "orin"))
        if not any(word in query for word in waits):
            assert [row["metric"]["host"] for row in rows][:1] == ["orin"], query
