"""The throwaway Docker daemon of the tests of containers, for a measurement inside one."""

from tests.containers.conftest import bare_image, daemon, docker_client, engine

__all__ = ["bare_image", "daemon", "docker_client", "engine"]
