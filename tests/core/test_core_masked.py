"""Passwords and tokens in URLs are shown as three stars, wherever a message quotes them."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core import text as secrets
from mansard.core.errors import ContainerError
from mansard.core.text import MAX_SHOWN_CHARACTERS, masked, masked_words, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tcp://me:secret@10.0.0.7:2376", "tcp://***@10.0.0.7:2376"),
        ("ssh://nvidia:secret@orin", "ssh://***@orin"),
        ("proxy http://me:p@ss/wo'rd@proxy:3128 fails", "proxy http://***@proxy:3128 fails"),
        ("https://ghp_0123456789@github.com/a/b", "https://***@github.com/a/b"),
        ("https://user:1234/5@pypi.example/simple", "https://***@pypi.example/simple"),
        ("https://r.io/v2/?scope=pull&access_token=abc#x", "https://r.io/v2/?scope=pull&access_token=***#x"),
        ("'https://a:b@c/d' and 'https://e:f@g/h'", "'https://***@c/d' and 'https://***@g/h'"),
        # What is no credential stays as it is.
        ("ssh://nvidia@orin", "ssh://nvidia@orin"),
        ("unix:///run/user/1000/docker.sock", "unix:///run/user/1000/docker.sock"),
        ("https://nvcr.io:443/v2/l4t:r36@sha256:0ab", "https://nvcr.io:443/v2/l4t:r36@sha256:0ab"),
        ("nvcr.io/l4t:r36@sha256:0ab", "nvcr.io/l4t:r36@sha256:0ab"),
        ("https://cdn.example/npm/vega@5", "https://cdn.example/npm/vega@5"),
        ("a: b@c", "a: b@c"),
        # By the name before it.
        ("run --password hunter2 x", "run --password *** x"),
        ("--token=abc", "--token=***"),
        ("--hf-token 'a b'", "--hf-token '***'"),
        ("DB_PASSWORD='a b' ./x", "DB_PASSWORD='***' ./x"),
        ("export AWS_SECRET_ACCESS_KEY=ab/c", "export AWS_SECRET_ACCESS_KEY=***"),
        ("curl -H 'Authorization: Bearer abc' x", "curl -H 'Authorization: ***' x"),
        ("X-Api-Key: abc", "X-Api-Key: ***"),
        ('{"password": "x y", "n": 1}', '{"password": "***", "n": 1}'),
        ("""os.environ["API_KEY"] = "abc\"""", """os.environ["API_KEY"] = "***\""""),
        ("app --pw abc --license-key=def", "app --pw *** --license-key=***"),
        # By its form.
        ("key AKIAIOSFODNN7EXAMPLE", "key ***"),
        ("login hf_abcdefghijkl", "login ***"),
        ("x eyJhbGciOiJI.eyJzdWIiOiIx.c2ln y", "x *** y"),
        # A token is also a piece of text.
        ("--max-tokens 128 --n-token 5", "--max-tokens 128 --n-token 5"),
        ("--tokenizer x", "--tokenizer x"),
        ("max_new_token=5 tokens/s: 30", "max_new_token=5 tokens/s: 30"),
        ("--key 3 token 5 of 10", "--key 3 token 5 of 10"),
    ],
)  # fmt: skip
def test_what_is_shown_of_a_text(text: str, shown: str) -> None:
    assert masked(text) == shown


_PATTERNS = (
    "_USER_INFO",
    "_OPTION",
    "_ASSIGNED",
    "_HEADER",
    "_JSON",
    "_BEARER",
    "_FORMS",
)


@pytest.mark.parametrize("name", _PATTERNS)
@given(data=st.data())
def test_a_text_without_a_sign_holds_no_secret(name: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(getattr(secrets, name), alphabet=st.characters(codec="ascii")))
    assert any(sign in text.lower() for sign in secrets._SIGNS)


# Of passwords: what a URL may have, and what people write all the same.
WORDS = st.text(
    string.ascii_letters + string.digits + "/@:'!$()*+,;=%-._~", min_size=1, max_size=20
)


@given(
    st.sampled_from(["tcp", "http", "https", "ssh", "socks5h"]),
    st.text(string.ascii_lowercase, max_size=5),
    WORDS.map(lambda word: f"Qq{word}qQ"),
    st.integers(0, MAX_SHOWN_CHARACTERS + 10),
)
def test_no_message_shows_a_password(scheme: str, user: str, password: str, before: int) -> None:
    url = f"{scheme}://{user}:{password}@host:1"
    for line in (
        str(ContainerError(f"{'x' * before} {url} fails", where=url, fix=f"try {url}")),
        printable(f"{'x' * before} {url}"),
        printable(url, before),
    ):
        assert password[:3] not in line


def test_words_of_a_command_are_masked_by_the_word_before() -> None:
    words = ["p", "--password", "a b", "-u", "me:pw", "PASSWORD=x y", "--n", "3", "--token", "-x"]
    shown = ("p", "--password", "***", "-u", "me:***", "PASSWORD=***", "--n", "3", "--token", "***")
    assert masked_words(words) == shown
    assert masked_words(shown) == shown


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("sshpass -p pw ssh -p 22 board", "sshpass -p *** ssh -p *** board"),
        ("/usr/bin/mysql -ppw -h host", "/usr/bin/mysql -p*** -h host"),
        ("docker login -p pw registry", "docker login -p *** registry"),
        ("nice redis-cli -a pw ping", "nice redis-cli -a *** ping"),
        ("ldapsearch -x -w pw", "ldapsearch -x -w ***"),
        # Elsewhere the letter means something else.
        ("docker run -p 80:80 image", "docker run -p 80:80 image"),
        ("server -p 8080 -a all -w 4", "server -p 8080 -a all -w 4"),
        ("nice -p", "nice -p"),
    ],
)
def test_some_programs_take_a_password_by_one_letter(command: str, shown: str) -> None:
    assert masked_words(command.split()) == tuple(shown.split())
    assert masked_words(shown.split()) == tuple(shown.split())
