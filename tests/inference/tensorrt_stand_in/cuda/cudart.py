"""What ``cuda.bindings.runtime`` was called up to cuda-python 12.6."""

from cuda._calls import *  # noqa: F403
