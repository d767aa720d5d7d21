"""The memory that a report needs is told before its passes."""

import pytest
from unit_data import make_pair

from gcbs_cli.planning.room import forecast_report
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.reports.build import make_reports
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system import limits as memory
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import parse_size
from gcbs_cli.system.progress import Progress


class NoPass(Progress):
    """A watcher of work that makes no pass."""

    def progress(self, done: int, total: int) -> None:
        raise AssertionError(f"{done} of {total} entries")


def test_too_little_memory_is_said_before_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, settings = make_pair("related", 700), ReportSettings(batch_sizes=[8], trials=1, quantile=0.5)
    backend = choose_backend("cpu")
    threshold = find_threshold(pair.grid, settings, settings.seed, backend)
    expected = forecast_report(pair, threshold, settings, backend, 7)
    limit = (expected.fixed + expected.memory) // 2
    with pytest.raises(BadInput, match=r"^--max-memory .*: the report would need") as refused:
        make_reports(pair, None, settings.changed(max_memory=limit), NoPass())
    said = str(refused.value)
    assert "\n" not in said
    words = said.replace(",", "").split()
    quantile, larger = words[words.index("--quantile") + 1], said.split("--max-memory ")[-1].split()[0]
    assert said.endswith("use --rows, on some of the rows")
    for fits in (
        {"max_memory": limit, "quantile": float(quantile)},
        {"max_memory": parse_size(larger, "--max-memory")},
    ):
        assert make_reports(pair, None, settings.changed(**fits))[0].n == 700
    monkeypatch.setattr(memory, "_free_on_machine", lambda: 1 << 20)
    with pytest.raises(BadInput, match="the report would need about"):
        make_reports(pair, None, settings)


def test_equal_rows_that_no_quantile_parts() -> None:
    pair = make_pair("all-equal", 700)
    with pytest.raises(BadInput, match="leave out equal rows, which no --quantile parts"):
        make_reports(pair, None, ReportSettings(batch_sizes=[8], trials=1, max_memory=40 << 20))
