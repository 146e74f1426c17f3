"""Long answers of the engine, over the Docker SDK's own session, closed when we say so.

The SDK hands out generators whose connection lives on until Python collects them. A build ends
when nobody listens any more, so to leave early must close the line at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from mansard.containers.engine import Engine

_PIECE = 1 << 20


@contextmanager
def answer(
    engine: Engine,
    method: str,
    path: str,
    *,
    timeout_s: float,
    parameters: Mapping[str, str] | None = None,
    content: IO[bytes] | None = None,
) -> Iterator[Any]:
    """The response to one request, to be read piece by piece; it is closed at the end.

    ``timeout_s`` is for a silence, not for the whole. Raises docker.errors.APIError with what
    the engine says, and what requests raises where the line breaks.
    """
    from docker.errors import create_api_error_from_http_exception
    from requests.exceptions import HTTPError

    api = engine.client.api
    response = api.request(
        method,
        f"{api.base_url}/v{api.api_version}{path}",
        params=dict(parameters or {}),
        data=content,
        headers={"Content-Type": "application/x-tar"} if content is not None else {},
        stream=True,
        timeout=timeout_s,
    )
    try:
        try:
            response.raise_for_status()
        except HTTPError as error:
            create_api_error_from_http_exception(error)  # raises
        yield response
    finally:
        response.close()


def messages(response: Any) -> Iterator[dict[str, Any]]:
    """The JSON objects of an answer, one for each line; what is none ends it with ValueError."""
    for line in response.iter_lines():
        if line:
            found = json.loads(line)
            if isinstance(found, dict):
                yield found


def pieces(response: Any) -> Iterator[bytes]:
    """The bytes of an answer."""
    found: Iterator[bytes] = response.iter_content(_PIECE)
    return found
