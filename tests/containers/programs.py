"""Programs that containers and callers run in these tests."""

from __future__ import annotations

SCRATCH = "/tmp/mansard-may-write"  # noqa: S108 - of a container
# Says what it was told and then what it sees of itself, as JSON; ends with its input.
LOOK = """
import json, os, sys
told = sys.stdin.readline().strip()
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
def can_write(path):
    try:
        open(path, "w").close()
    except OSError as error:
        return error.strerror
    return "written"
print(json.dumps({
    "told": told,
    "capabilities": [status[f"Cap{kind}"].strip() for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")],
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "seccomp": status["Seccomp"].strip(),
    "ids": [os.getuid(), os.geteuid(), os.getgid(), os.getegid()],
    "groups": os.getgroups(),
    "network": sorted(os.listdir("/sys/class/net")),
    "writes": {path: can_write(path) for path in ("/x", "/usr/x", "/sys/x", REPO + "/x", SCRATCH)},
    "devices": sorted(os.listdir("/dev")),
    "environment": dict(os.environ),
}), flush=True)
sys.stdin.read()
""".replace("SCRATCH", repr(SCRATCH))
WAIT = "import sys; print('up', flush=True); sys.stdin.read()"
HANG = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""

# A caller of its own, to be killed: starts a container that waits and says its id.
CALLER = """
import sys
from mansard.containers.engine import connect
from mansard.containers.launch import launched
from tests.containers.launching import launch
with connect(sys.argv[1]) as engine:
    with launched(engine, launch(sys.argv[2], "-c", sys.argv[3])) as container:
        for line in container.lines():
            print(container.ident, flush=True)
"""
