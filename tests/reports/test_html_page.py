"""The page of a report: complete, escaped, self-contained, small however large N is."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import reference
from typer.testing import CliRunner

from gcbs_cli.api import plan
from gcbs_cli.cli.app import app
from gcbs_cli.data.opening import open_arrays
from gcbs_cli.graph.adjacency import adjacency_from_pairs
from gcbs_cli.reports.basis import ReportInputs
from gcbs_cli.reports.losses import measure
from gcbs_cli.reports.page.page import density, loss_chart, shades, suspect_examples
from gcbs_cli.settings.report import ReportSettings

SAMPLE = Path(__file__).parents[2] / "sample_data"
EVIL = "<script>alert('x')</script>&\"'\u202e"
ROWS = 400


def run(*words):
    result = CliRunner().invoke(app, [*map(str, words), "-q"])
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pairs whose file and ids are called what nobody should call them, a plan and its page."""
    folder = tmp_path_factory.mktemp("page")
    table = pq.read_table(SAMPLE / "pairs.parquet").slice(0, ROWS)
    ids = pa.array([f"{EVIL}{number}" for number in range(ROWS)])
    path = folder / "a<b>&'.parquet"
    pq.write_table(table.set_column(table.schema.get_field_index("id"), "id", ids), path)
    run("plan", path, "-o", folder / "p<i>.npy", "-k", 40)
    words = ["report", path, "-p", folder / "p<i>.npy"]
    run(*words, "-o", folder / "page.json")
    run(*words, "--html", folder / "page.html", "-t", 0.05, "-t", 0.025)
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "page.html").read_text()


class Tags(HTMLParser):
    """Every start tag, and the text outside them."""

    def __init__(self, page):
        super().__init__()
        self.tags = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data + "\n"


def test_names_are_text_and_nothing_is_fetched(page):
    parsed = Tags(page)
    assert "<script" not in page
    policy = next(attributes["content"] for tag, attributes in parsed.tags if "http-equiv" in attributes)
    assert policy.startswith("default-src 'none'; ")
    assert "script-src" not in policy
    for name in (EVIL, "a<b>&'.parquet", "p<i>.npy"):
        assert name in parsed.text
    for tag, attributes in parsed.tags:
        for name in ("src", "href", "xlink:href", "action", "data"):
            value = attributes.get(name)
            assert value is None or value.startswith("data:"), (tag, name, value)
    assert "url(" not in page
    assert "@import" not in page
    assert len(page.encode()) < 2_000_000


def test_every_part_of_the_issue_is_there(page, folder):
    report = json.loads((folder / "page.json").read_text())
    text = Tags(page).text
    learnable = report["learnable_share"]
    assert f"Learnable: {learnable['plan']:.1%} (random {learnable['random_mean']:.1%})" in text
    assert f"{report['gap']['reduction']:.1%} of random's gap" in text
    for figure in ("global", "plan", "random_mean"):
        assert f"{report['loss'][figure]:.3f}" in text
    for bound in ("translation", "logsumexp"):
        assert f"{report['bounds'][bound]:.4f}" in text
    manifest = json.loads((folder / "p<i>.npy.manifest.json").read_text())
    for wanted in (manifest["permutation_hash"], manifest["inputs"]["x"]["fingerprint"], manifest["created"]):
        assert wanted in text
    for words in ("before (the input's order)", "To each other's answers"):
        assert words in text
    assert f"{report['false_negatives']['suspected_pairs']:,}" in text


def test_tables_can_be_reached_and_have_names(page):
    tags = Tags(page).tags
    regions = [attributes for tag, attributes in tags if attributes.get("role") == "region"]
    assert sum(tag == "table" for tag, _ in tags) == sum(tag == "caption" for tag, _ in tags) == 2
    assert all(region["tabindex"] == "0" and region["aria-label"] for region in regions)
    assert all(attributes.get("aria-label") for tag, attributes in tags if tag == "svg")


def test_page_of_several_reports_without_a_plan_and_of_a_plan_whose_short_batch_is_dropped(folder, tmp_path):
    words = ["-k", 40, "-t", 0.1, "-t", 0.025, "--loss", "infonce", "--loss", "symmetric"]
    run("report", folder / "a<b>&'.parquet", *words, "--html", tmp_path / "page.html")
    text = Tags((tmp_path / "page.html").read_text()).text
    assert "in random batches of 40" in text
    assert "in a random order" in text
    assert text.count("\n0.025\n") == 2
    words = ["report", folder / "a<b>&'.parquet", "-p", folder / "p<i>.npy", "--drop-last", "-k", 48]
    run(*words, "--html", tmp_path / "dropped.html")
    assert "nan" not in (tmp_path / "dropped.html").read_text()
    run("report", folder / "a<b>&'.parquet", "-k", ROWS, "--html", tmp_path / "no-gap.html")
    assert "<b>gap 0.000</b>" in (tmp_path / "no-gap.html").read_text()


def test_suspects_are_shown_with_the_texts_of_both_rows(folder, tmp_path):
    lines = [json.dumps({"q": f"question {row} {EVIL}", "a": f"answer {row}"}) for row in range(ROWS)]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    words = ["report", folder / "a<b>&'.parquet", "-p", folder / "p<i>.npy", "--html", tmp_path / "page.html"]
    run(*words, "--texts", tmp_path / "texts.jsonl", "--x-text", "q", "--y-text", "a")
    page = (tmp_path / "page.html").read_text()
    shown = re.findall(
        r"<b>(\d+) \(.*?</b>\s*<blockquote>question (\d+) .*?</blockquote><blockquote>answer (\d+)<", page
    )
    assert len(shown) == 24
    assert all(row == question == answer for row, question, answer in shown)
    assert "<script" not in page


@pytest.fixture(scope="module")
def pair():
    return open_arrays(*(np.load(SAMPLE / f"{side}.npy")[:ROWS] for side in "xy")).read()


def test_details_agree_with_the_report_and_with_loops(pair):
    perm = plan(pair.x, pair.y, batch_size=48).perm
    (measured,) = measure(ReportInputs(pair, ReportSettings(batch_sizes=[48], trials=5)), perm)
    losses = (
        np.average(measured.of_plan["batch_losses"], weights=[48] * 8 + [16]),
        np.mean([order["loss.plan"] for order in measured.of_random]),
    )
    assert losses == pytest.approx((measured.report.loss.plan, measured.report.loss.random_mean), abs=1e-9)
    s = pair.x.astype(np.float64) @ pair.y.astype(np.float64).T
    curve = loss_chart(measured).curves["plan"]
    batches = measured.of_plan["batch_losses"]
    assert curve[::50] == pytest.approx([batches.min(), np.median(batches), batches.max()])
    suspects = suspect_examples(measured)
    assert suspects
    batches = [perm[start : start + 48] for start in range(0, ROWS, 48)]
    inside = reference.suspected_pairs(s, measured.report.graph.threshold, 0.95, batches)
    assert measured.report.false_negatives.suspected_pairs == len(inside)
    most = sorted((max(s[i, j], s[j, i]) for i, j in inside), reverse=True)[:12]
    assert [max(suspect.similarities) for suspect in suspects] == pytest.approx(most, abs=1e-6)
    for suspect in suspects:
        i, j = suspect.rows
        assert tuple(sorted(suspect.rows)) in inside
        assert suspect.similarities + suspect.own == pytest.approx((s[i, j], s[j, i], s[i, i], s[j, j]), abs=1e-6)
        assert {i, j} <= set(batches[suspect.batch].tolist())


@pytest.mark.parametrize("rows", [5, 144, 145, 1000])
def test_density_counts_each_entry_in_its_cell(rows):
    generator = np.random.default_rng(rows)
    left, right = generator.integers(0, rows, (2, 300)).astype(np.int32)
    graph = adjacency_from_pairs(rows, left, right)
    perm = generator.permutation(rows)
    place = np.argsort(perm)
    for start, stop in ((0, rows), (rows // 4, rows // 2)):
        found, length = density(graph, perm[start:stop]), stop - start
        wanted = np.zeros_like(found)
        for i, j in zip(place[graph.row_of_entry()] - start, place[graph.indices] - start, strict=True):
            if min(i, j) >= 0 and max(i, j) < length:
                wanted[i * len(found) // length, j * len(found) // length] += 1
        assert (found == wanted).all()


def test_a_picture_of_a_million_rows_is_small_and_shows_its_diagonal():
    rows = 1_000_000
    first = np.arange(rows - 1, dtype=np.int32)
    found = density(adjacency_from_pairs(rows, first, first + 1), np.arange(rows))
    paths = shades(found, int(found.max()))
    assert sum(map(len, paths.values())) < 50_000
    assert paths[1.0].startswith("M0 0h1M1 1h1")
    marked = {(int(y), int(x)) for x, y in re.findall(r"M(\d+) (\d+)h1", "".join(paths.values()))}
    assert marked == set(zip(*np.nonzero(found), strict=True))
