"""The page in a headless Chromium, checked by axe-core; skipped where one of the two is missing.

axe-core comes from npm: `npm install axe-core` in the project's folder, or GCBS_AXE=path of axe.min.js.
"""

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE = Path(os.environ.get("GCBS_AXE", ROOT / "node_modules" / "axe-core" / "axe.min.js"))
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=20000"
)
MARK = "axe-found:"
CUT = (
    "[...document.querySelectorAll('.plot span, .bar span:not(.track *)')].filter(t => {"
    "const box = t.getBoundingClientRect();"
    "return box.left < 0 || box.right > innerWidth || Math.min(box.width, box.height) < 11 && t.textContent.length > 1;"
    "}).map(t => t.textContent)"
)

pytestmark = pytest.mark.skipif(CHROMIUM is None or not AXE.is_file(), reason="needs chromium and axe-core (npm)")


@pytest.fixture(scope="module", params=["report", "compare"])
def page(gcbs, request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    pairs, html, plan = ROOT / "sample_data" / "pairs.parquet", folder / "page.html", folder / "perm.npy"
    if request.param == "compare":
        gcbs("compare", pairs, "--methods", "random,rcm,train", "--html", html)
    else:
        gcbs("plan", pairs, "-o", plan)
        gcbs("report", pairs, "-p", plan, "--html", html)
    return html.read_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ["1200,900", "390,844"], ids=["desktop", "phone"])
def test_axe_finds_nothing_and_the_console_stays_empty(page, tmp_path, theme, size):
    shows = (
        "document.querySelectorAll('details').forEach(d => d.open = true);"
        f"axe.run().then(r => {{ document.title = '{MARK}' + JSON.stringify({{"
        "dark: matchMedia('(prefers-color-scheme: dark)').matches, passes: r.passes.map(p => p.id),"
        "wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,"
        f"charts: document.querySelectorAll('svg, .track').length, cut: {CUT},"
        "violations: r.violations.map(v => [v.id, v.nodes.slice(0, 3).map(n => n.html)])}); });"
    )
    path = tmp_path / "page.html"
    page = re.sub('<meta http-equiv="Content-Security-Policy".*?>', "", page)  # it forbids axe, too
    path.write_text(page.replace("</body>", f"<script>{AXE.read_text() + shows}</script></body>"))
    command = [str(CHROMIUM), *FLAGS.split(), f"--window-size={size}", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--blink-settings=preferredColorScheme=0"] if theme == "dark" else []
    done = subprocess.run([*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=120)
    found = json.loads(unescape(done.stdout.split(MARK)[1].split("</title>")[0]))
    assert found["violations"] == []
    assert "color-contrast" in found["passes"]
    assert found["dark"] is (theme == "dark")
    assert found["wide"] <= 0  # nothing sticks out of the window
    assert found["charts"] >= 3
    assert found["cut"] == []  # no letter of a chart outside it, and none too small to read
    assert "CONSOLE" not in done.stderr
