"""Another program that changes a simulated board's mode, clocks, cores and governors at random."""

from __future__ import annotations

import contextlib
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from meddling.board_log import BWMGR, CPU, EMC_RATE, gpu_folders

STAYS_S = (0.0, 0.003, 0.02, 0.1, 0.4, 1.5)  # how long a change stays
_FOR_GOOD = 0.08  # so many of them stay until the end
Writes = list[tuple[Path, str]]


class Meddler:
    """Acts within ``acting``; ``acts`` has when each change began and was taken back."""

    def __init__(self, root: Path, seed: str, mean_pause_s: float) -> None:
        self._root, self._random = root, random.Random(seed)
        self._mean_pause_s = mean_pause_s
        self._is_over = threading.Event()
        self.acts: list[tuple[str, float, float | None]] = []

    @contextlib.contextmanager
    def acting(self) -> Iterator[None]:
        """Act within this, in a thread."""
        self._is_over.clear()
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def _run(self) -> None:
        acts: dict[str, Callable[[], Writes]] = {
            "GPU clock": self._gpu,
            "CPU clock": self._cpu,
            "memory clock": self._memory,
            "core": self._core,
            "governor": self._governor,
            "mode": list,
        }
        while not self._is_over.wait(self._random.expovariate(1 / self._mean_pause_s)):
            stays = self._random.random() < _FOR_GOOD
            name = self._random.choice(list(acts) if stays else list(acts)[:-1])
            stay_s = None if stays else self._random.choice(STAYS_S)
            writes = acts[name]()
            before = [(path, path.read_text().strip()) for path, _ in writes]
            start_s = time.monotonic()
            if name == "mode":  # the mode before cannot be written back: it stays
                self._set_mode()
            _write(writes)
            if stay_s is not None:
                self._is_over.wait(stay_s)
                _write(before[::-1])
            self.acts.append((name, start_s, None if stay_s is None else time.monotonic()))

    def _set_mode(self) -> None:
        status = self._root / "var/lib/nvpmodel/status"
        present = int(status.read_text().strip().rpartition(":")[2])
        text = (self._root / "etc/nvpmodel.conf").read_text()
        numbers = [line.split("ID=")[1].split()[0] for line in text.splitlines() if " ID=" in line]
        other = self._random.choice([number for number in numbers if int(number) != present])
        tool = self._root / "usr/sbin/nvpmodel"
        command = [str(tool), "-m", other]
        subprocess.run(command, input="no\n", capture_output=True, text=True, check=False)

    def _range(self, folder: Path, names: tuple[str, str], table: Path) -> Writes:
        """Lowest and highest clock at another step: the one that gives way first."""
        low, high = (folder / name for name in names)
        now = int(high.read_text())
        steps = [step for step in map(int, table.read_text().split()) if step != now]
        step = self._random.choice(steps)
        order = (high, low) if step > now else (low, high)
        return [(path, str(step)) for path in order]

    def _gpu(self) -> Writes:
        folder = self._random.choice(gpu_folders(self._root))
        return self._range(folder, ("min_freq", "max_freq"), folder / "available_frequencies")

    def _policy(self) -> Path:
        policies = sorted((self._root / CPU / "cpufreq").glob("policy*"))
        return self._random.choice(
            [each for each in policies if each.joinpath("affected_cpus").read_text().strip()]
        )

    def _cpu(self) -> Writes:
        folder = self._policy()
        names = ("scaling_min_freq", "scaling_max_freq")
        return self._range(folder, names, folder / "scaling_available_frequencies")

    def _memory(self) -> Writes:
        bwmgr = (self._root / BWMGR).parent
        if bwmgr.exists():
            return self._range(bwmgr, ("min_freq", "max_freq"), bwmgr / "available_frequencies")
        rate = self._root / EMC_RATE
        if self._random.random() < 0.5:
            return [(rate.with_name("mrq_rate_locked"), "0")]
        now = int(rate.read_text())
        table = rate.with_name("possible_rates").read_text().split()
        other = self._random.choice([1000 * int(each) for each in table if 1000 * int(each) != now])
        return [(rate, str(other))]

    def _core(self) -> Writes:
        switches = sorted((self._root / CPU).glob("cpu[0-9]*/online"))
        switch = self._random.choice([each for each in switches if each.parent.name != "cpu0"])
        return [(switch, "0" if switch.read_text().strip() == "1" else "1")]

    def _governor(self) -> Writes:
        path = self._policy() / "scaling_governor"
        return [(path, "powersave" if path.read_text().strip() != "powersave" else "performance")]


def _write(writes: Writes) -> None:
    for path, text in writes:
        with contextlib.suppress(OSError):
            path.write_text(f"{text}\n")
