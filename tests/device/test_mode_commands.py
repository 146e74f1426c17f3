"""The commands that set a recommended mode and undo it."""

from __future__ import annotations

from pathlib import Path

from mansard.simulator import create_board


def test_a_published_board_without_jetson_in_its_name_has_commands() -> None:
    from mansard.device.mode_commands import commands_for

    commands, why = commands_for("15W", "Orin Nano 8GB Super (published)", None, None)
    assert commands is not None
    assert why == ""
    commands, why = commands_for("15W", "My box (published)", None, None)
    assert commands is None
    assert "was not measured here" in why


def test_commands_of_a_board_at_hand_hold_its_own_numbers_and_undo_them(tmp_path: Path) -> None:
    from mansard.device.identity import identify
    from mansard.device.mode_commands import commands_for
    from mansard.device.power_modes.listing import list_board

    root = create_board("agx-orin", tmp_path)
    numbers = {one.mode.name: one.id for one in list_board(root).modes}
    present = list_board(root).present
    assert present is not None
    found, why_not = commands_for("50W", "any", identify(root), root)
    assert found is not None, why_not
    assert found.set_lines == (f"sudo nvpmodel -m {numbers['50W']}",)
    assert found.undo_lines == (f"sudo nvpmodel -m {numbers[present]}",)


def test_clocks_one_by_one_are_undone_by_what_is_read_now(tmp_path: Path) -> None:
    from mansard.device.identity import identify
    from mansard.device.mode_commands import commands_for

    root = create_board("agx-orin", tmp_path)
    name = "gpu612MHz_emc2133MHz_cpu1190MHz_4c"
    found, why_not = commands_for(name, "any", identify(root), root)
    assert found is not None, why_not
    targets = [line.rpartition(" ")[2] for line in found.set_lines]
    assert [line.rpartition(" ")[2] for line in found.undo_lines] == targets[::-1]
    assert any("612000000" in line for line in found.set_lines)
    for line in found.undo_lines:
        value, path = line.split()[1], line.rpartition(" ")[2]
        assert root.joinpath(path.lstrip("/")).read_text().strip() == value
    elsewhere, why_not = commands_for(name, "any", identify(root), None)
    assert elsewhere is None
    assert "run the same command on the board" in why_not


def test_a_mode_of_clocks_elsewhere_is_set_by_the_clocks_own_files(tmp_path: Path) -> None:
    """The lines themselves, run on a board's files: they set the caps, and put them back."""
    import subprocess

    from mansard.device.mode_commands import commands_for

    root = create_board("agx-orin", tmp_path)
    clocks = {"gpu_hz": 612e6, "memory_hz": 2133e6, "cpu_hz": 1190.4e6, "n_cpus": None}
    found, why_not = commands_for("gpu612-emc2133", "Jetson AGX Orin", None, None, clocks)
    assert found is not None, why_not
    assert not any("nvpmodel -" in line for line in (*found.set_lines, *found.undo_lines))
    caps = [
        next(root.glob(pattern))
        for pattern in (
            "sys/class/devfreq/*g[apv]*/max_freq",
            "sys/kernel/nvpmodel_*_cap/emc*",
            "sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq",
        )
    ]
    before = [path.read_text().strip() for path in caps]
    values = "; ".join(f"cat {path}" for path in caps)
    lines = [*found.set_lines, values, *found.undo_lines, values]
    script = "\n".join(lines).replace(" /sys", f" {root}/sys").replace("sudo tee", "tee >/dev/null")
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["612000000", "2133000000", "1190400", *before]
    # A mode of NVIDIA's is looked up by its name, whatever its clocks are.
    named, _ = commands_for("15W", "Jetson AGX Orin", None, None, clocks)
    assert named is not None
    assert "NAME=(MODE_)?15W *>" in named.set_lines[1]


def test_the_lookup_finds_the_mode_s_number_in_the_board_s_file(tmp_path: Path) -> None:
    """The line's own sed, run on the configuration of a board."""
    import re
    import subprocess

    from mansard.device.identity import identify
    from mansard.device.mode_commands import commands_for
    from mansard.device.power_modes.listing import list_board

    root = create_board("agx-orin", tmp_path)
    found, _ = commands_for("30W", "any", identify(root), None)
    assert found is not None
    match = re.search(r"\$\((sed .*) /etc/nvpmodel.conf\)", found.set_lines[1])
    assert match is not None
    done = subprocess.run(
        ["sh", "-c", f"{match[1]} {root / 'etc/nvpmodel.conf'}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    numbers = {one.mode.name: one.id for one in list_board(root).modes}
    assert done.stdout.split() == [str(numbers["30W"])]


def test_settings_of_a_card_become_nvidia_smi_s() -> None:
    from mansard.device.mode_commands import commands_for
    from tests.analytics.factory import machine

    card = machine()
    card = type(card)(
        **{name: getattr(card, name) for name in card.__struct_fields__} | {"kind": "gpu"}
    )
    found, _ = commands_for("power250W_gpu1410MHz", "a card", card, None)
    assert found is not None
    assert found.set_lines == ("sudo nvidia-smi -i 0 -pl 250", "sudo nvidia-smi -i 0 -lgc 1410")
    assert found.undo_lines[1] == "sudo nvidia-smi -i 0 -rgc"
    assert "power.default_limit" in found.undo_lines[0]
