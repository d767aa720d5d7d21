"""The page in a headless Chromium, checked by axe-core; skipped where one of the two is missing.

axe-core comes from npm: `npm install axe-core` in the project's folder, or GCBS_AXE=path of axe.min.js.
"""

import json
import os
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gcbs_cli.cli.app import app

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "sample_data"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE = Path(os.environ.get("GCBS_AXE", ROOT / "node_modules" / "axe-core" / "axe.min.js"))
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=20000",
]
MARK = "axe-found:"
CUT = (
    "[...document.querySelectorAll('.plot span, .track strong')].filter(t => {"
    "const box = t.getBoundingClientRect();"
    "return box.left < 0 || box.right > innerWidth || Math.min(box.width, box.height) < 11 && t.textContent.length > 1;"
    "}).map(t => t.textContent)"
)

pytestmark = pytest.mark.skipif(CHROMIUM is None or not AXE.is_file(), reason="needs chromium and axe-core (npm)")


@pytest.fixture(scope="module", params=["report", "history"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("browser")
    pairs, html = str(SAMPLE / "pairs.parquet"), str(folder / "page.html")
    if request.param == "report":
        _gcbs("plan", pairs, "-o", folder / "perm.npy")
        _gcbs("report", pairs, "-p", folder / "perm.npy", "--html", html)
    else:
        for epoch in range(3):
            plan = folder / f"perm-{epoch}.npy"
            _gcbs("plan", pairs, "-o", plan, "--seed", epoch)
            _gcbs("report", pairs, "-p", plan, "-o", folder / f"report-{epoch}.json")
        _gcbs("history", *sorted(folder.glob("report-*.json")), "--html", html)
    return Path(html).read_text()


def _gcbs(*words: object) -> None:
    done = CliRunner().invoke(app, [*map(str, words), "-q"])
    assert done.exit_code == 0, done.output


def browse(page: str, script: str, folder: Path, *flags: str) -> tuple[str, str]:
    """The document after the script, and what the browser logged."""
    path = folder / "page.html"
    path.write_text(page.replace("</body>", f"<script>{script}</script></body>"))
    command = [str(CHROMIUM), *FLAGS, *flags, f"--user-data-dir={folder / 'profile'}", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.stdout, done.stderr


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ["1200,900", "390,844"], ids=["desktop", "phone"])
def test_axe_finds_nothing_and_the_console_stays_empty(page: str, tmp_path: Path, theme: str, size: str) -> None:
    shows = (
        "document.querySelectorAll('details').forEach(d => d.open = true);"
        f"axe.run().then(r => {{ document.title = '{MARK}' + JSON.stringify({{"
        "dark: matchMedia('(prefers-color-scheme: dark)').matches, passes: r.passes.map(p => p.id),"
        "wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,"
        f"charts: document.querySelectorAll('svg').length, cut: {CUT},"
        "violations: r.violations.map(v => [v.id, v.nodes.slice(0, 3).map(n => n.html)])}); });"
    )
    scheme = ["--blink-settings=preferredColorScheme=0"] if theme == "dark" else []
    dom, log = browse(page, AXE.read_text() + shows, tmp_path, f"--window-size={size}", *scheme)
    found = json.loads(unescape(dom.split(MARK)[1].split("</title>")[0]))
    assert found["violations"] == []
    assert {"color-contrast", "scrollable-region-focusable"} & set(found["passes"]) >= {"color-contrast"}
    assert found["dark"] is (theme == "dark")
    assert found["wide"] <= 0  # nothing sticks out of the window
    assert found["charts"] >= 3
    assert found["cut"] == []  # no letter of a chart outside it, and none too small to read
    assert "CONSOLE" not in log
