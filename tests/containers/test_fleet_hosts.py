"""The grammar of HOST= and HOSTS=, and of hosts.toml; what is hostile is refused."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.containers.engine_errors import REMEDIES, START_ENGINE
from mansard.containers.hosts import Host, on_board, read_hosts
from mansard.core.errors import ContainerError, DeviceError, InputError, MansardError, UsageError

FILE = """
[boards.orin-1]
docker = "nvidia@10.0.0.7"
image = "l4t-r36.4"

[boards.bench]
docker = "unix:///run/user/1000/docker.sock"
root = "/srv/boards/agx-orin"

[boards.far]
docker = "ssh://lab@far.example:2222"
socket = "/run/podman/podman.sock"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "boards.toml"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nvidia@orin", {"ssh": "nvidia@orin"}),
        ("orin.lab-2", {"ssh": "orin.lab-2"}),  # an alias of ssh_config
        ("nvidia@10.0.0.7:2222", {"ssh": "nvidia@10.0.0.7", "port": 2222}),
        ("ssh://nvidia@orin:2222", {"ssh": "nvidia@orin", "port": 2222}),
        ("nvidia@[fe80::1%eth0]:22", {"ssh": "nvidia@fe80::1%eth0", "port": 22}),
        ("unix:///run/docker.sock", {"socket": "/run/docker.sock"}),
    ],
)
def test_addresses(text: str, expected: dict[str, object]) -> None:
    (host,) = read_hosts([text])
    assert host == Host(name=text, **expected)  # type: ignore[arg-type]
    assert not host.is_simulated


def test_names_of_a_file(file: Path) -> None:
    first, second, third, fourth = read_hosts(["orin-1, bench", "far,nvidia@orin"], file)
    assert first == Host(name="orin-1", ssh="nvidia@10.0.0.7", image="l4t-r36.4")
    assert second.root == PurePosixPath("/srv/boards/agx-orin")
    assert second.is_simulated
    assert (third.ssh, third.port) == ("lab@far.example", 2222)
    assert third.socket == "/run/podman/podman.sock"
    assert fourth.ssh == "nvidia@orin"


def test_hosts_toml_is_that_of_the_settings_and_not_that_of_the_present_folder(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.chdir(tmp_path)
    here = file.rename(tmp_path / "hosts.toml")
    assert read_hosts(["bench"])[0].ssh == "bench"
    assert read_hosts(["bench"], here)[0].is_simulated
    (tmp_path / "settings/mansard").mkdir(parents=True)
    here.rename(tmp_path / "settings/mansard/hosts.toml")
    assert read_hosts(["bench"])[0].is_simulated


@pytest.mark.parametrize(
    "text",
    [
        "-oProxyCommand=reboot", "user@-oProxyCommand=reboot", "-l@host", "", "a,,b", ",",
        "a b", "a;reboot", "$(reboot)", "`reboot`", "a\nb", "a@b@c", "host:0", "host:65536",
        "unix://relative", "unix:///a:b", f"unix:///{'a' * 107}", "tcp://10.0.0.7:2375",
        "ssh://", "user@", "@host", "a\0b", "host:port",
    ],
)  # fmt: skip
def test_what_is_no_board_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"does not name a board|is empty"):
        read_hosts([text])


@given(st.text(max_size=40))
def test_whatever_is_taken_holds_no_option_and_no_shell(text: str) -> None:
    try:
        hosts = read_hosts([text])
    except MansardError:
        return
    for host in hosts:
        if host.ssh is not None:
            assert not host.ssh.startswith("-")
            assert "@-" not in host.ssh
            assert not set(host.ssh) & set(" \t\n;&|$`'\"\\<>(){}*?!#,/")


@pytest.mark.parametrize(
    ("texts", "which"),
    [
        (["orin", "orin"], "orin: the same board twice"),
        (["orin,nvidia@orin,orin"], "orin: the same board twice"),
        (["nvidia@10.0.0.7,orin-1"], "nvidia@10.0.0.7 and orin-1: the same board twice"),
        (["a@b,ssh://a@b"], "a@b and ssh://a@b: the same board twice"),
    ],
)
def test_the_same_board_twice_is_refused(file: Path, texts: list[str], which: str) -> None:
    with pytest.raises(UsageError, match=which):
        read_hosts(texts, file)


def test_two_simulated_boards_of_one_engine_are_two_boards(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(
        '[boards.a]\ndocker = "unix:///d.sock"\nroot = "/b/1"\n'
        '[boards.b]\ndocker = "unix:///d.sock"\nroot = "/b/2"\n'
    )
    assert [host.name for host in read_hosts(["a,b"], path)] == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("boards = 3", "'boards' is nothing"),
        ("[board.a]\ndocker = 'a'", "'board' is nothing"),
        ("[boards.a]\ndocker = 'a'\ncolour = 'red'", "board 'a': .*colour"),
        ("[boards.a]\nroot = '/x'", "board 'a': .*docker"),
        ("[boards.a]\ndocker = '-oX'", "board 'a': '-oX' does not name a board"),
        ("[boards.a]\ndocker = 'a'\nroot = 'x'", "board 'a': root is not an absolute path"),
        ("[boards.a]\ndocker = 'a'\nroot = '/x/../y'", "board 'a': root is not an absolute path"),
        ("[boards.a]\ndocker = 'a'\nsocket = 'x'", "board 'a': socket is not an absolute path"),
        ("[boards.'../a']\ndocker = 'a'", "is not a name for a board"),
        ("[boards.'-a']\ndocker = 'a'", "is not a name for a board"),
        ("[boards.a", "is not TOML"),
        ("\0", "is not TOML"),
    ],
)
def test_a_file_that_is_wrong_is_refused_by_name(
    tmp_path: Path, content: str, expected: str
) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(content)
    with pytest.raises(InputError, match=rf"hosts\.toml.*{expected}"):
        read_hosts(["a"], path)


def test_folders_are_plain_and_no_two_are_the_same() -> None:
    names = [
        "orin",
        "user@orin",
        "user-orin",
        "unix:///run/docker.sock",
        "user@[fe80::1]",
        "a/../b",
    ]
    folders = [Host(name=name).folder for name in names]
    assert len(set(folders)) == len(names)
    assert folders[0] == "orin"
    for folder in folders:
        assert set(folder) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-")
        assert not folder.startswith((".", "-"))


@pytest.mark.parametrize("text", ["ssh://nv:secret@orin", "nv:secret@orin", "a:secr/et@b@c"])
def test_a_password_in_an_address_is_refused_and_not_shown(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not name a board.*without a password") as caught:
        read_hosts([text])
    assert "secr" not in str(caught.value)
    file = tmp_path / "hosts.toml"
    file.write_text(f'[boards.orin]\ndocker = "{text}"\n')
    with pytest.raises(InputError) as caught_in_file:
        read_hosts(["orin"], file)
    assert "secr" not in str(caught_in_file.value)


def test_remedies_name_where_their_commands_are_run() -> None:
    host = Host(name="bench", ssh="u@10.0.0.7", port=2222)
    error = DeviceError(
        "no",
        fix="'sudo usermod -aG docker $USER', see 'journalctl -u docker', "
        "or 'mansard board restore'",
    )
    told = on_board(error, host)
    assert isinstance(told, DeviceError)
    assert told.fix == (
        r"'ssh -t -p 2222 u@10.0.0.7 sudo usermod -aG docker \$USER', "
        "see 'ssh -p 2222 u@10.0.0.7 journalctl -u docker', or 'mansard board restore --host bench'"
    )
    assert on_board(told, host).fix == told.fix  # once is enough
    assert on_board(error, Host(name="here")).fix == error.fix
    for fix in (START_ENGINE, *(remedy.fix for remedy in REMEDIES)):
        shown = on_board(ContainerError("no", fix=fix), host).fix or ""
        assert "LOCAL" not in shown
        assert "'sudo" not in shown
        assert shown.strip(" ,;") == shown
