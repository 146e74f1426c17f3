"""Container engines of many boards in one process, each on a socket of its own.

They speak as much of Docker's API as a bench asks for. What a container would run is run here: the
board's controller as the real program, on the folder of a simulated board; the measuring process as
a thread that takes the job, waits as long as trials take, and answers with made-up samples. All
above the engine's socket is the product. Faults are given by board: ``slow`` (seconds of a trial),
``silent_after`` (trials after which nothing there answers or ends any more).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import msgspec
import numpy as np

from mansard.core.processes.line_channel import encode_line
from mansard.core.records import Conditions, Trial
from mansard.measuring.events import Done, Event, Idle, Progress, Row, Started
from mansard.measuring.kind import Job, decode_job
from mansard.microbench.kernel import HOST, TrialSpec, find_kernel
from mansard.microbench.plan import KernelPlan, probe

SSH_S = 55.0  # until ssh ends that hears nothing: docs/use/fleet.md
_N_BLOCKS, _N_IN_BLOCK = 10, 3
_RATES = {"fma": 60e9, "stream": 40e9}  # made up: FLOP/s and byte/s of one core


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """A board: its socket, the folder that is its root, and how it behaves."""

    name: str
    socket: str
    root: str
    trial_s: float
    silent_after: int | None = None


class _Container:
    def __init__(
        self,
        board: Board,
        command: list[str],
        mounts: dict[str, str],
        fall_silent: Callable[[], None],
    ) -> None:
        self.board, self.command, self.mounts = board, command, mounts
        self.fall_silent = fall_silent
        self.connection: socket.socket | None = None
        self.exit_code: int | None = None
        self.ended = threading.Event()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        is_controller = "mansard.device.controller" in self.command
        run = self._run_controller if is_controller else self._run_here
        threading.Thread(target=self._to_the_end, args=(run,), daemon=True).start()

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
        self._hang_up()

    def _to_the_end(self, run: Callable[[], int]) -> None:
        try:
            self.exit_code = run()
        except OSError:  # the caller has gone
            self.exit_code = 143
        self.ended.set()
        self._hang_up()

    @property
    def attached(self) -> socket.socket:
        """The connection of its caller, which attaches before it is started."""
        if self.connection is None:
            raise OSError("nothing is attached")
        return self.connection

    def _hang_up(self) -> None:
        with suppress(OSError):
            self.attached.shutdown(socket.SHUT_RDWR)

    def _run_controller(self) -> int:
        words = [self.mounts.get(word, word) for word in self.command]
        own, other = socket.socketpair()
        process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, *words],
            stdin=other.fileno(),
            stdout=other.fileno(),
            stderr=subprocess.DEVNULL,
        )
        self.process = process
        other.close()
        threading.Thread(target=self._feed, args=(own,), daemon=True).start()
        with own, own.makefile("rb") as lines:
            for line in lines:
                self.say(line)
        return int(process.wait())

    def _feed(self, to: socket.socket) -> None:
        with suppress(OSError):
            while data := self.attached.recv(1 << 16):
                to.sendall(data)
        with suppress(OSError):  # it has ended by itself
            to.shutdown(socket.SHUT_WR)

    def _run_here(self) -> int:
        if "--probe" in self.command:
            self.say(encode_line(_PROBE))
            return 0
        with self.attached.makefile("rb") as asked:
            job = decode_job(asked.readline())
        for event in _measured(job, self.board, self.fall_silent):
            self.say(encode_line(event))
        return 0

    def say(self, line: bytes) -> None:
        """In a frame of its own, on the standard output."""
        self.attached.sendall(b"\1\0\0\0" + len(line).to_bytes(4, "big") + line)


_PROBE = probe("cpu")


def _measured(job: Job, board: Board, fall_silent: Callable[[], None]) -> Iterator[Event]:
    plan = cast("KernelPlan", job.plan)
    yield Started(
        versions=plan.versions,
        meters=(),
        meters_missing={"ina3221": "made up: this board has none"},
        total=None,
        why_no_total="no meter",
        gpu=None,
        why_no_gpu="the kernels ran on the CPU",
    )
    yield Idle(None, "no meter was read")
    missing = [spec for spec in plan.trials if spec.trial_id in set(job.missing)]
    for number, spec in enumerate(missing):
        left = len(missing) - number
        yield Progress(n_left=left, now=spec.title)
        if number == board.silent_after:
            fall_silent()
        time.sleep(board.trial_s)
        yield Row(_trial(spec, plan))
    yield Progress(n_left=0, now="")
    yield Done()


def _trial(spec: TrialSpec, plan: KernelPlan) -> Trial:
    kernel, case = find_kernel(spec.kernel, spec.backend), spec.case(len(plan.cpus))
    launch, n = kernel.launch(case, HOST), len(plan.cpus)
    work, traffic = kernel.work_flop(case, launch) * n, kernel.traffic_bytes(case, launch) * n
    seconds_s = max(work / (n * _RATES["fma"]), traffic / (n * _RATES["stream"]))
    noise = np.random.default_rng().normal(1.0, 0.002, _N_BLOCKS * _N_IN_BLOCK)
    conditions = Conditions.__struct_fields__[1:]
    unknown = {"n_sms": "the CPU ran it", "clock_hz": "the CPU ran it", "energy": "no meter"}
    if spec.fma_per_element is None:
        unknown["fma_per_element"] = "no chain"
    return Trial(
        run_id=plan.run_id,
        trial_id=spec.trial_id,
        source="simulated",
        kernel=spec.kernel,
        family=kernel.family,
        processor="cpu",
        backend=spec.backend,
        precision=spec.precision,
        fma_per_element=spec.fma_per_element,
        operands=spec.operands,
        scope=spec.scope,
        memory=spec.memory,
        cpus=plan.cpus,
        n_sms=None,
        working_set_bytes=spec.working_set_bytes,
        work_flop=work,
        traffic_bytes=traffic,
        traffic_counting=kernel.traffic_counting(case),
        repetitions_per_sample=1,
        seconds_s=tuple((seconds_s * noise).tolist()),
        block=tuple(np.repeat(range(_N_BLOCKS), _N_IN_BLOCK).tolist()),
        clock_hz=None,
        rejected_s=(),
        rejected_reason=(),
        stability="stable",
        stability_interval=0.002,
        energy=None,
        conditions=Conditions(
            **dict.fromkeys(conditions), unknown=dict.fromkeys(conditions, "made up")
        ),
        disturbances=(),
        source_hash=kernel.source_hash,
        started_utc=_now()[:19] + "Z",
        duration_s=1.0,
        unknown=unknown,
    )


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_VERSION = {
    "Version": "28.3.2",
    "ApiVersion": "1.51",
    "Arch": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
    "Components": [{"Name": "Engine", "Version": "28.3.2"}],
}
_INFO = {
    "Name": "a-board",
    "Architecture": os.uname().machine,
    "KernelVersion": "5.15.148-tegra",
    "Runtimes": {"runc": {}},
    "CDISpecDirs": [],
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=cgroupns"],
    "CgroupVersion": "2",
    "Driver": "overlay2",
    "DockerRootDir": "/var/lib/docker",
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        route = urlsplit(self.path).path.partition("/v1.")[2].partition("/")[2] or self.path[1:]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer(route.strip("/"), body)

    do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815 - the names that the server looks for

    def _answer(self, route: str, body: bytes) -> None:
        parts = route.split("?", maxsplit=1)[0].split("/")
        if self.server.is_silent.is_set():
            threading.Event().wait()
        match parts:
            case ["version"]:
                return self._send(_VERSION)
            case ["info"]:
                return self._send({**_INFO, "SystemTime": _now()})
            case ["images", *name, "json"]:
                tag = "/".join(name)
                self._send({"Id": "sha256:" + "1" * 64, "RepoTags": [tag], "Size": 1, "Config": {}})
            case ["volumes"]:
                self._send({"Volumes": []})
            case ["containers", "json"]:
                self._send([])
            case ["containers", "create"]:
                self._send({"Id": self.server.create(json.loads(body)), "Warnings": []}, 201)
            case ["containers", ident, *what] if ident in self.server.containers:
                self._of_container(ident, what)
            case ["events"]:
                self._send_events()
            case _:
                self._send({"message": f"no such thing: {route}"}, 404)
        return None

    def _of_container(self, ident: str, what: list[str]) -> None:
        container = self.server.containers[ident]
        match what:
            case ["json"]:
                self._send({"Id": ident, "State": {}, "Config": {}, "Image": "sha256:1"})
            case ["attach"]:
                container.connection = self.connection  # before the caller may start it
                self.connection.sendall(
                    b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\n"
                    b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
                )
                container.ended.wait()
                self.close_connection = True
            case ["start"]:
                container.start()
                self._send(None, 204)
            case ["stop"]:
                container.stop()
                self._send(None, 204)
            case ["wait"]:
                container.ended.wait(20)
                self._send({"StatusCode": container.exit_code or 0})
            case []:
                container.stop()
                container.ended.set()
                del self.server.containers[ident]
                self._send(None, 204)
            case _:
                self._send({"message": "no such question"}, 404)

    def _send_events(self) -> None:
        (filters,) = parse_qs(urlsplit(self.path).query)["filters"]
        (ident,) = json.loads(filters)["container"]
        container = self.server.containers.get(ident)
        code = 0 if container is None or container.exit_code is None else container.exit_code
        attributes = {"exitCode": str(code)}
        self._send({"Action": "die", "Actor": {"ID": ident, "Attributes": attributes}})

    def _send(self, content: Any, status: int = 200) -> None:
        body = b"" if content is None else json.dumps(content).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:  # the request asked for it, and Go's server answers so
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def address_string(self) -> str:
        return "a socket"


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, board: Board) -> None:
        super().__init__(board.socket, _Handler)
        self.board = board
        self.containers: dict[str, _Container] = {}
        self.is_silent = threading.Event()
        self.connections: list[socket.socket] = []

    def create(self, asked: dict[str, Any]) -> str:
        mounts = {
            str(each["Target"]): str(each["Source"])
            for each in asked["HostConfig"].get("Mounts") or ()
        }
        ident = uuid.uuid4().hex * 2
        self.containers[ident] = _Container(
            self.board, list(asked["Cmd"]), mounts, self.fall_silent
        )
        return ident

    def fall_silent(self) -> None:
        """As a board does whose kernel has died: connections stay, and nothing comes any more.

        After a while they end, as they do when ssh gives it up.
        """
        self.is_silent.set()
        for container in list(self.containers.values()):
            if container.process is not None:
                container.process.send_signal(signal.SIGSTOP)
        time.sleep(SSH_S)
        self.server_close()
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        threading.Event().wait()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.append(request)
        super().process_request(request, client_address)

    def handle_error(self, *_: object) -> None:
        """Nothing: the caller went away in the middle."""


def main() -> None:
    """Serve the boards of a JSON file until standard input ends."""
    boards = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=list[Board])
    for board in boards:
        server = _Server(board)
        threading.Thread(target=server.serve_forever, args=(0.2,), daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
