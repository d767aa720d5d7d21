import os
import subprocess
import sys

import numpy as np
import pytest

from gcbs_cli.system.compiled import compiled, needs_compiling


@compiled
def _square(value):
    return value * value


@compiled
def _sum_of_squares(values):
    total = 0.0
    for value in values:
        total += _square(value)
    return total


def test_a_compiled_loop_may_call_another():
    assert _sum_of_squares(np.array([1.0, 2.0, 3.0])) == 14.0
    assert _square(3.0) == 9.0


def test_numba_is_not_imported_before_a_loop_runs():
    code = "import sys, gcbs_cli.planning.plan, gcbs_cli.data.pairs; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_what_is_kept_is_not_compiled_again(tmp_path):
    """In one process after the other; where no folder can be written, every process compiles and still runs."""
    code = (
        "import numpy as np\n"
        "from gcbs_cli.system.arrays import _place as loop\n"
        "from gcbs_cli.system.compiled import needs_compiling\n"
        "before = needs_compiling(loop)\n"
        "loop(np.zeros(2, np.int32), np.zeros(1, np.int64), np.zeros(2, np.int64))\n"
        "print(before, needs_compiling(loop))\n"
    )

    def run(folder):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert run(tmp_path / "kept") == ["True", "False"]
    assert run(tmp_path / "kept") == ["False", "False"]


def test_a_loop_that_nothing_can_keep_is_compiled_all_the_same(monkeypatch):
    from numba.core import caching

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    loop = compiled(lambda value: value + 1)
    assert needs_compiling(loop)
    assert loop(2) == 3
    assert not needs_compiling(loop)


@pytest.mark.parametrize(
    ("step", "rule", "result"), [(2, "STEP + value", 9), (3, "STEP * value", 45)], ids=["rule", "constant"]
)
def test_machine_code_follows_what_changes_in_another_file(tmp_path, step, rule, result):
    decorated = "from gcbs_cli.system.compiled import compiled\n{}\n\n\n@compiled\ndef {}(value):\n    return {}\n"
    (tmp_path / "caller.py").write_text(decorated.format("from callee import once", "twice", "once(once(value))"))

    def run(step, rule):
        (tmp_path / "callee.py").write_text(decorated.format(f"STEP = {step}", "once", rule))
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-B", "-c", "from caller import twice; print(twice(5))"],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    assert run(2, "STEP * value") == 20
    assert run(step, rule) == result
