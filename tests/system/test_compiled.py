import os

import pytest
from running import run_python

from gcbs_cli.system.compiled import compiled, is_own


def test_numba_is_not_imported_before_a_loop_runs():
    run_python("import sys, gcbs_cli.planning.plan, gcbs_cli.data.pairs; sys.exit('numba' in sys.modules)")


KEPT = """
import numpy as np
from gcbs_cli.graph.adjacency import _both_ways as loop
loop(2, np.zeros(1, np.int32), np.ones(1, np.int32))
print(sum(loop.machine_code.stats.cache_hits.values()))
"""


def test_what_is_kept_is_not_compiled_again(tmp_path):
    assert run_python(KEPT, NUMBA_CACHE_DIR=tmp_path / "kept") == "0\n"
    assert run_python(KEPT, NUMBA_CACHE_DIR=tmp_path / "kept") == "1\n"


def test_a_cache_that_others_can_write_is_not_loaded(tmp_path):
    assert run_python(KEPT, NUMBA_CACHE_DIR=tmp_path) == "0\n"
    (folder,) = {path.parent for path in tmp_path.rglob("*.nbi")}
    assert is_own(folder)
    folder.chmod(0o777)
    assert not is_own(folder)
    for path in folder.glob("*.nb*"):
        path.write_bytes(b"from elsewhere")
    assert run_python(KEPT, NUMBA_CACHE_DIR=tmp_path) == "0\n"
    folder.chmod(0o755)
    next(folder.glob("*.nbc")).chmod(0o666)
    assert not is_own(folder)


def test_a_loop_that_nothing_can_keep_is_compiled_all_the_same(monkeypatch):
    from numba.core import caching

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    loop = compiled(lambda value: value + 1)
    assert loop(2) == 3


@pytest.mark.parametrize(
    ("step", "rule", "result"), [(2, "STEP + value", 9), (3, "STEP * value", 45)], ids=["rule", "constant"]
)
def test_machine_code_follows_what_changes_in_another_file(tmp_path, step, rule, result):
    decorated = "from gcbs_cli.system.compiled import compiled\n{}\n\n\n@compiled\ndef {}(value):\n    return {}\n"
    (tmp_path / "caller.py").write_text(decorated.format("from callee import once", "twice", "once(once(value))"))
    environment = {
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": tmp_path / "kept",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
    }

    def run(step, rule):
        (tmp_path / "callee.py").write_text(decorated.format(f"STEP = {step}", "once", rule))
        return int(run_python("from caller import twice; print(twice(5))", **environment))

    assert run(2, "STEP * value") == 20
    assert run(step, rule) == result
