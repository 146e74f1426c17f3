"""Prompts of an exact number of tokens, no two of which begin alike.

A prefix cache answers what begins as an earlier prompt did. So prompts are drawn at random from
common words, and the first word, or token, of each is another one than those of the prompts before
it, until all had their turn. Where the server has a tokeniser, a prompt is a list of ids of these
words' tokens: exactly as long as wanted. Else it is a text, and the number of words that makes the
wanted number of tokens is found by asking: the server counts the prompt's tokens in its answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from mansard.core.errors import MeasurementError
from mansard.inference.servers.connection import Connection, ask
from mansard.inference.servers.endpoints import Endpoint
from mansard.inference.servers.interfaces import Prompt

# Common English words; each is one token of nearly every vocabulary, with the blank before it.
_TEXT = """
the of and to in is you that it he was for on are as with his they at be this have from or one had
by word but not what all were we when your can said there use an each which she do how their if
will up other about out many then them these so some her would make like him into time has look
two more write go see number no way could people my than first water been call who oil its now
find long down day did get come made may part over new sound take only little work know place year
live me back give most very after thing our just name good sentence man think say great where help
through much before line right too mean old any same tell boy follow came want show also around
form three small set put end does another well large must big even such because turn here why ask
went men read need land different home us move try kind hand picture again change off play spell
air away animal house
"""
_WORDS = tuple(_TEXT.split())
_MOST_TRIES = 8
_TOKENISE_S = 60.0


class Prompts(Protocol):
    """Makes prompts for one server."""

    counting: Literal["tokeniser", "usage"]

    def make(self, n_tokens: int) -> Prompt:
        """The next prompt; raises MeasurementError where none so long can be made."""
        ...


class VariedDraws:
    """Items in a random order whose first differs from those before it."""

    def __init__(self, pool: Sequence[Any], seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._pool = list(pool)
        self._firsts: list[Any] = []

    def draw(self, n_items: int) -> list[Any]:
        """So many items of the pool, at least one."""
        if not self._firsts:
            self._firsts = self._random.sample(self._pool, len(self._pool))
        return [self._firsts.pop(), *self._random.choices(self._pool, k=n_items - 1)]


class TokenPrompts:
    """Prompts as ids of tokens, from the server's tokeniser."""

    counting: Literal["tokeniser", "usage"] = "tokeniser"

    def __init__(self, ids: Sequence[int], seed: int) -> None:
        self._drawn = VariedDraws(sorted(set(ids)), seed)

    def make(self, n_tokens: int) -> Prompt:
        """So many ids."""
        return self._drawn.draw(n_tokens)


class TextPrompts:
    """Prompts as texts; ``count`` asks the server how many tokens one has."""

    counting: Literal["tokeniser", "usage"] = "usage"

    def __init__(self, count: Callable[[str], int], seed: int) -> None:
        self._count, self._drawn = count, VariedDraws(_WORDS, seed)
        self._n_words: dict[int, int] = {}  # by the tokens that they make

    def make(self, n_tokens: int) -> Prompt:
        """A text of so many words as make ``n_tokens``; raises MeasurementError."""
        if n_tokens not in self._n_words:
            self._n_words[n_tokens] = self._calibrate(n_tokens)
        return self._text(self._n_words[n_tokens])

    def _text(self, n_words: int) -> str:
        return " ".join(self._drawn.draw(n_words))

    def _calibrate(self, n_tokens: int) -> int:
        n_words, seen = n_tokens, 0
        for _ in range(_MOST_TRIES):
            seen = self._count(self._text(n_words))
            if seen == n_tokens:
                return n_words
            n_words = max(1, n_words + n_tokens - seen)
        raise MeasurementError(
            f"no text of {n_tokens} tokens could be made: {n_words} common words have {seen}",
            fix="a chat adds tokens of its template: ask for a longer prompt",
        )


def find_prompts(endpoint: Endpoint, seed: int) -> Prompts:
    """By the server's tokeniser where it has one, else by its counts; raises MeasurementError."""
    if endpoint.interface.takes_tokens:
        ids = _tokenised(endpoint, " ".join(_WORDS))
        if len(set(ids)) > 1:
            return TokenPrompts(ids, seed)

    def count(text: str) -> int:
        with Connection(endpoint.address) as connection:
            request = endpoint.request(connection, text, 1)
        if not request.prompt_tokens:
            raise MeasurementError(
                "the server neither splits a text into tokens nor counts those of a prompt",
                where=endpoint.address.shown,
                fix="nothing says how long its prompts are: measure another server",
            )
        return request.prompt_tokens

    return TextPrompts(count, seed)


def _tokenised(endpoint: Endpoint, text: str) -> list[int]:
    """The ids of a text: llama.cpp's /tokenize, or that of vLLM and SGLang; empty without one."""
    body: dict[str, Any] = {"model": endpoint.model, "prompt": text, "add_special_tokens": False}
    if endpoint.server == "llama.cpp":
        body = {"content": text, "add_special": False}
    status, document = ask(endpoint.address, "POST", "/tokenize", body, timeout_s=_TOKENISE_S)
    tokens = document.get("tokens") if status == 200 and isinstance(document, dict) else None
    return [token for token in tokens or () if isinstance(token, int)]
