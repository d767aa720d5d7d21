"""Parts as tasks of Ray; `make test-hard` kills nodes of a cluster meanwhile."""

import os

import numpy as np
import pytest
from running import run_gcbs

from gcbs_cli.planning.parts import ray_engine
from gcbs_cli.system.errors import BadInput

ray = pytest.importorskip("ray", reason="needs gcbs[ray]")


@pytest.mark.slow
def test_a_plan_by_ray_is_that_of_this_machine(folder):
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_memory_monitor_refresh_ms": "0"}
    words = ["plan", "x.npy", "y.npy", "-k", "16", "--partitions", "3", "-q", "-o"]
    for output, more in (("here.npy", []), ("ray.npy", ["--engine", "ray", "--address", "local"])):
        done = run_gcbs(*words, output, *more, env=os.environ | quiet)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert np.array_equal(np.load("here.npy"), np.load("ray.npy"))


def test_no_cluster_is_one_clear_line(tmp_path, monkeypatch):
    def none_there(**options):
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(ray, "init", none_there)
    with pytest.raises(BadInput, match="--address auto: no Ray cluster answers .*--address local"):
        list(ray_engine.plan_on_ray([], lambda part: None, "auto"))


def test_what_ray_prints_does_not_reach_stdout(monkeypatch, capsys):
    monkeypatch.setattr(ray, "init", lambda **options: None)
    with ray_engine.connected(ray, "auto"):
        print("a node was lost")
    print("a permutation")
    assert capsys.readouterr() == ("a permutation\n", "a node was lost\n")
