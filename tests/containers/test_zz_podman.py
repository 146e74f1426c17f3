import pytest
from pathlib import Path
from tests.containers.test_launch_container import *
from tests.containers.test_launch_measurer import test_a_plan_is_measured_in_a_container_with_the_boards_meters, test_a_run_that_is_killed_leaves_no_container_and_resumes, board, test_no_gpu_inside_is_told_with_what_helps
from tests.containers.throwaway import Daemon, import_bare_image
del test_daemon_that_goes_away_in_the_middle_of_a_run
@pytest.fixture(scope="session")
def daemon():
    return Daemon("unix:///tmp/h5/C2/p/p.sock", Path("/tmp/h5/C2/p"), 1)
