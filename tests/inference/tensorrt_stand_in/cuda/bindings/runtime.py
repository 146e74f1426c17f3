"""The CUDA runtime."""

from cuda._calls import *  # noqa: F403
