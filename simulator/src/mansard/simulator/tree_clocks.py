"""The clocks of a simulated tree other than the CPUs': GPU, memory, accelerators."""

from __future__ import annotations

from pathlib import PurePosixPath

from mansard.simulator.figures import Figures, Gpu
from mansard.simulator.tree import Tree

CLK = "/sys/kernel/debug/bpmp/debug/clk"


def add_clocks(tree: Tree, board: Figures) -> None:
    """devfreq domains, debugfs clocks, and nvpmodel's caps, all uncapped."""
    for gpu in board.gpus:
        _add_gpu(tree, gpu)
    if board.gpu_folder:
        _add_gpu_device(tree, board, board.gpu_folder)
    # Nobody uses the GPU's memory; the form is that of nvgpu's list of clients.
    clients = f"{'CLIENT':<20} {'PROCESS':>16} {'PID':>8} {'SIZE':>11}\n{'total':<20} {'0K':>37}"
    tree.put("/sys/kernel/debug/nvmap/iovmm", {"clients": clients})
    _add_memory(tree, board)
    for clock in board.clocks:
        folder, _, name = clock.cap.rpartition("/")
        tree.put(folder, {name: clock.max_hz})
        # debugfs has the same clock under its own name: nafll_dla0_core
        debug = f"{CLK}/{name if name.startswith('nafll') else f'nafll_{name}'}"
        tree.put(debug, {"rate": clock.max_hz, "state": 1, "min_rate": 0})
        tree.put(debug, {"max_rate": clock.max_hz, "mrq_rate_locked": 0})


def devfreq_files(hz: tuple[int, ...]) -> dict[str, object]:
    """What a devfreq folder holds that is not the GPU's own."""
    return {
        "available_frequencies": " ".join(map(str, hz)),
        "min_freq": hz[0],
        "max_freq": hz[-1],
        "cur_freq": hz[0],
        "target_freq": hz[0],
        "governor": "nvhost_podgov",
        "available_governors": "nvhost_podgov userspace performance simple_ondemand",
        "polling_interval": 25,
    }


def _add_gpu(tree: Tree, gpu: Gpu) -> None:
    folder = PurePosixPath(gpu.devfreq)
    tree.put(gpu.devfreq, {**devfreq_files(gpu.hz), "load": 0})
    device = folder.parent.parent
    of_node = f"/sys/firmware/devicetree/base/{device.name}"
    tree.files[f"{of_node}/name"] = f"{gpu.of_name}\0".encode()
    tree.link(f"{device}/of_node", of_node)
    tree.link(f"{gpu.devfreq}/device", str(device))
    tree.links.setdefault(f"{device}/devfreq_dev", gpu.devfreq)
    tree.link(f"/sys/class/devfreq/{folder.name}", gpu.devfreq)


def _add_gpu_device(tree: Tree, board: Figures, folder: str) -> None:
    tree.put(folder, {"railgate_enable": 1, "load": 0})
    if board.n_tpcs:
        tree.put(folder, {"tpc_pg_mask": 0})
    if any(param.name == "FBP_POWER_GATING" for param in board.params):
        tree.put(folder, {"fbp_pg_mask": 0})
    tree.put(f"{folder}/power", {"control": "auto", "runtime_status": "active"})
    # The driver's own name for its device, which nvpmodel.conf uses.
    alias = "/sys/devices/platform/gpu.0" if board.l4t[0] >= 36 else "/sys/devices/gpu.0"
    tree.link(alias, folder)


def _add_memory(tree: Tree, board: Figures) -> None:
    highest = board.emc_hz[-1]
    if board.cactmon:
        folder, _, name = board.cactmon.rpartition("/")
        tree.put(folder, {name: 0})
    if board.bwmgr:
        tree.put(board.bwmgr, devfreq_files(board.emc_hz))
        tree.link("/sys/class/devfreq/bwmgr", board.bwmgr)
        return
    if board.emc_cap:
        folder, _, name = board.emc_cap.rpartition("/")
        tree.put(folder, {name: highest})
    tree.put(
        f"{CLK}/emc",
        {
            "rate": board.emc_hz[0],
            "min_rate": board.emc_hz[0],
            "max_rate": highest,
            "mrq_rate_locked": 0,
            "state": 1,
            "possible_rates": " ".join(str(hz // 1000) for hz in board.emc_hz),
        },
    )
