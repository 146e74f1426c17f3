"""The last look at each board as metrics that Prometheus scrapes over HTTP.

Names and units follow Prometheus' conventions (prometheus.io/docs/practices/naming): base units, a
suffix for the unit, ``_total`` for what only grows. What is unknown is not there; it is never 0.

Connections are bounded in number and in time: ``prometheus_client``'s own server gives each a
thread and a file descriptor for as long as the other side likes, and idle ones would take those
that the meters are read through.
"""

from __future__ import annotations

import contextlib
import platform
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import msgspec

from mansard.core.connections import (
    BoundedConnections,
    address_family,
    listen_errors,
    parse_listen,
    server_url,
)
from mansard.core.records import BoardSample

if TYPE_CHECKING:
    from prometheus_client import Metric

MOST_CONNECTIONS = 16  # at a time; further ones are closed at once
CONNECTION_S = 5.0  # from its beginning; what is not asked and answered by then is closed


def serve(app: Callable[..., Any], host: str, port: int) -> WSGIServer:
    """A server that listens; its ``serve_forever`` is to be called. Raises OSError."""
    kind = type("Server", (_Server,), {"address_family": address_family(host, port)})
    server: WSGIServer = kind((host, port), _Handler)
    server.set_app(app)
    return server


class _Handler(WSGIRequestHandler):
    """One request of a connection; without a log."""

    timeout = CONNECTION_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        del format, args


class _Server(BoundedConnections, WSGIServer):
    most_connections = MOST_CONNECTIONS
    most_s = CONNECTION_S


_LABELS = ("host", "board")  # of every metric; the host distinguishes identical boards
_CAUSES = ("thermal", "over-current", "power", "cap", "unknown")


class _Quantity(msgspec.Struct, frozen=True):
    """One metric: a field of the look, or of each of its parts, whose name is the label."""

    name: str  # without mansard_, and without the _total of what only grows
    words: str
    field: str
    parts: str = ""
    label: str = ""
    is_counter: bool = False


_QUANTITIES = (
    _Quantity("power_watts", "Power of the whole board, by the rule of its rails", "power_w"),
    _Quantity("energy_joules", "Energy of the board since the start", "energy_j", is_counter=True),
    _Quantity("unmetered_seconds", "Time without energy readings", "unmetered_s", is_counter=True),
    _Quantity("rail_power_watts", "Power of a rail", "power_w", "rails", "rail"),
    _Quantity(
        "rail_energy_joules", "Energy of a rail", "energy_j", "rails", "rail", is_counter=True
    ),
    _Quantity("temperature_celsius", "Temperature of a sensor", "temperature_c", "zones", "zone"),
    _Quantity(
        "temperature_limit_celsius",
        "Temperature at which the kernel throttles",
        "trip_c",
        "zones",
        "zone",
    ),
    _Quantity("cpu_busy_ratio", "Share of the time that is busy", "busy_share", "cpus", "cpu"),
    _Quantity("cpu_clock_hertz", "Clock of the CPU", "clock_hz", "cpus", "cpu"),
    _Quantity("cpu_clock_limit_hertz", "Cap of the CPU's clock", "cap_hz", "cpus", "cpu"),
    _Quantity("gpu_busy_ratio", "Share of the time that is busy", "busy_share", "gpus", "gpu"),
    _Quantity("gpu_clock_hertz", "Clock of the GPU", "clock_hz", "gpus", "gpu"),
    _Quantity("gpu_clock_limit_hertz", "Cap of the GPU's clock", "cap_hz", "gpus", "gpu"),
    _Quantity("gpu_memory_used_bytes", "Memory in use", "memory_used_bytes", "gpus", "gpu"),
    _Quantity("gpu_memory_size_bytes", "Memory of the card", "memory_total_bytes", "gpus", "gpu"),
    _Quantity("memory_clock_hertz", "Clock of the memory", "memory_clock_hz"),
    _Quantity("memory_clock_limit_hertz", "Cap of the memory's clock", "memory_cap_hz"),
    _Quantity("memory_busy_ratio", "Share of the bandwidth in use", "memory_busy_share"),
    _Quantity("memory_used_bytes", "Memory in use", "memory_used_bytes"),
    _Quantity("memory_size_bytes", "Total memory", "memory_total_bytes"),
    _Quantity("swap_used_bytes", "Swap in use", "swap_used_bytes"),
    _Quantity("swap_size_bytes", "Total swap", "swap_total_bytes"),
    _Quantity(
        "fan_speed_rpm", "Speed of the fastest fan in revolutions per minute", "fan_speed_rpm"
    ),
    _Quantity("fan_drive_ratio", "Duty cycle of the fan", "fan_drive_share"),
    _Quantity("throttle_events", "Throttling events", "n_throttle_events", is_counter=True),
    _Quantity("overcurrent_events", "Over-current", "n_overcurrent_events", is_counter=True),
    _Quantity("sample_timestamp_seconds", "Unix time of the sample", "time_s"),
)


class Exporter:
    """The last sample of each board, as a collector of ``prometheus_client``.

    ``machine``: the label ``host`` of every board; None: the name of each board, its host's.
    """

    def __init__(self, machine: str | None = None) -> None:
        self._machine = machine
        self._lock = threading.Lock()
        self._samples: dict[str, BoardSample] = {}
        self._lost: set[str] = set()
        self.address = ""

    def take(self, sample: BoardSample) -> None:
        """Show this sample from now on."""
        with self._lock:
            self._samples[sample.board] = sample
            self._lost.discard(sample.board)

    def lose(self, board: str) -> None:
        """Show that a board does not answer: ``mansard_up`` is 0, and its numbers are gone."""
        with self._lock:
            self._samples.pop(board, None)
            self._lost.add(board)

    def collect(self) -> Iterator[Metric]:
        """Every metric with the boards that have it."""
        with self._lock:
            samples, lost = list(self._samples.values()), sorted(self._lost)
        return _metrics(samples, lost, self._machine)


@contextlib.contextmanager
def export_metrics(address: str, *, are_hosts: bool = False) -> Iterator[Exporter]:
    """An HTTP server with the metrics until the end of the block; ``.address`` is its URL.

    The label ``host`` distinguishes identical boards. It is the name of this machine, or, if the
    boards ``are_hosts``, the name that each was given.
    ``address``: ``:9100`` is this machine alone, ``0.0.0.0:9100`` every network that it is in,
    ``[::1]:9100`` IPv6. There is no access control: every program that reaches the port can read
    the metrics. Raises UsageError for another text, DeviceError where it cannot be listened on.
    """
    from prometheus_client import CollectorRegistry, make_wsgi_app

    host, port = parse_listen("--prometheus", address)
    exporter = Exporter(None if are_hosts else platform.node() or None)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(exporter)
    with listen_errors(f"--prometheus {address}"):
        server = serve(make_wsgi_app(registry), host, port)
    exporter.address = f"{server_url(host, server.server_port)}/metrics"
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield exporter
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _metrics(samples: list[BoardSample], lost: list[str], machine: str | None) -> Iterator[Metric]:
    """``machine``: the host of all boards; None: each is its own."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    def names(board: str) -> tuple[str, ...]:
        return (machine or board, board)  # of _LABELS

    up = GaugeMetricFamily("mansard_up", "Whether the board answers", labels=[*_LABELS])
    info = GaugeMetricFamily(
        "mansard_board_info",
        "Power mode and source of the values",
        labels=[*_LABELS, "mode", "source"],
    )
    throttled = GaugeMetricFamily(
        "mansard_throttled",
        "Whether this limits the clocks",
        labels=[*_LABELS, "cause"],
    )
    for sample in samples:
        up.add_metric(names(sample.board), 1)
        info.add_metric([*names(sample.board), sample.mode or "", sample.source], 1)
        for cause, is_on in _throttled(sample):
            throttled.add_metric([*names(sample.board), cause], float(is_on))
    for board in lost:
        up.add_metric(names(board), 0)
    yield from (up, info, throttled)
    for quantity in _QUANTITIES:
        family = CounterMetricFamily if quantity.is_counter else GaugeMetricFamily
        labels = [*_LABELS, *([quantity.label] if quantity.label else [])]
        metric = family(f"mansard_{quantity.name}", quantity.words, labels=labels)
        for sample in samples:
            for part in getattr(sample, quantity.parts) if quantity.parts else (sample,):
                value = getattr(part, quantity.field)
                if value is not None:
                    further = [str(getattr(part, quantity.label))] if quantity.label else []
                    metric.add_metric([*names(sample.board), *further], value)
        yield metric


def _throttled(sample: BoardSample) -> Iterator[tuple[str, bool]]:
    """Each cause that is at work, and those that are known not to be."""
    now = {limit.cause for limit in sample.limits if limit.is_throttling}
    can_be_seen = {"over-current": sample.n_overcurrent_events is not None}
    for cause in _CAUSES:
        if cause in now or can_be_seen.get(cause, sample.n_throttle_events is not None):
            yield cause, cause in now
