"""A program ``ncu`` for tests: it lists metrics, runs what it is given, and prints a raw page.

The page has the layout of Nsight Compute's; the numbers in it are made up. ``SAYS`` in its
environment is what it prints instead, as the real one does where it cannot count, for the batch
``AT_BATCH`` alone if that is there; ``BULK`` is how many bytes it prints after the page;
``RANGES`` adds the NVTX ranges of calls and of layers with labels. A report to import is
``write_report``'s: the page that it prints.
"""

from __future__ import annotations

import sys
from pathlib import Path

VERSION = "2024.3.1.0"
CHIPS = "ga102, ga10b, gh100"
NAMES = (
    "gpu__time_duration",
    "sm__cycles_elapsed",
    "gpc__cycles_elapsed",
    *(f"sm__sass_thread_inst_executed_op_{op}_pred_on" for op in ("ffma", "fadd", "fmul")),
    "sm__ops_path_tensor_src_fp16_dst_fp32",
    "l1tex__t_bytes",
    "lts__t_bytes",
    "lts__d_sectors_fill_sysmem",
    "lts__t_sectors_aperture_sysmem_op_write",
)
_SOURCE = """#!{python} -S
import csv, json, os, subprocess, sys
def unit(metric):
    if "per_second" in metric:
        return "hz"
    if "sectors" in metric:
        return "sector"
    ends = dict(time_duration="nsecond", cycles_elapsed="cycle", bytes="byte")
    name = metric.split(".")[0]
    return next((to for end, to in ends.items() if name.endswith(end)), "inst")
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(repr(words) + "\\n")
if words == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler")
    print("Version {version} (build 1) (public-release)")
elif words == ["--list-chips"]:
    print({chips!r})
elif words[:2] == ["--query-metrics", "--chips"]:
    if words[2] not in {chips!r}.split(", "):
        print("Invalid chip " + words[2])
        sys.exit(255)
    print("Chip " + words[2])
    for name in {names!r}:
        print(name.ljust(60), "Counter")
elif words[:1] == ["--import"]:
    with open(words[1], "rb") as file:
        report = file.read()
    if report[:4] != b"NVR\\0":
        print("==ERROR== Failed to load report file '" + words[1] + "'.")
        sys.exit(1)
    sys.stdout.buffer.write(report[4:])
else:
    with open(words[-3]) as file:
        job = json.load(file)["trial"]
    is_meant = os.environ.get("AT_BATCH") in (None, str(job["batch"]))
    if os.environ.get("SAYS") and is_meant:
        print(os.environ["SAYS"])
        sys.exit(1)
    at = next(i for i, word in enumerate(words) if word == {python!r})
    metrics = words[words.index("--metrics") + 1].split(",")
    code = subprocess.run(words[at:]).returncode
    print("==PROF== Connected to process 1")
    if code:
        print("==ERROR== The application returned an error code (1).")
        print("==WARNING== No kernels were profiled.")
        sys.exit(1)
    print('==PROF== Profiling "conv" - 0: 0%....50%....100% - 3 passes')
    page = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL, lineterminator="\\n")
    ranges = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    first = ["ID", "Kernel Name", "Block Size", "Grid Size", "CC"]
    first += [ranges] if os.environ.get("RANGES") else []
    page.writerow([*first, *metrics])
    page.writerow([*([""] * len(first)), *map(unit, metrics)])
    for number in range(2 * job["n_calls"]):
        name = ("conv", "gemm")[number % 2]
        row = [number, name, "(32, 1, 1)", "(8, 1, 1)", "8.7"]
        if os.environ.get("RANGES"):
            names = ["mansard call %d" % (number // 2), "@%d@" % (number % 2)]
            ends = ":none:none:none:none:none:none"
            said = ['"<default domain>:' + each + ends + '"' for each in names]
            row.append("1  " + "  ".join(said))
        page.writerow([*row, *("1,024" for _ in metrics)])
    print("x" * int(os.environ.get("BULK", "0")))
    print("==PROF== Disconnected from process 1")
"""


def write_ncu(folder: Path) -> Path:
    """The program in ``folder``, beside a file ``log`` of the words that it was called with."""
    path = folder / "ncu"
    path.write_text(
        _SOURCE.format(
            python=sys.executable,
            log=str(folder / "log"),
            version=VERSION,
            chips=CHIPS,
            names=NAMES,
        )
    )
    path.chmod(0o755)
    return path


def write_report(path: Path, page: str) -> Path:
    """A report of which this program prints ``page``."""
    path.write_bytes(b"NVR\0" + page.encode())
    return path
