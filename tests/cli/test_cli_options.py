"""One field of a model is an option everywhere: flags, the environment, files and Python, and which of them counts."""

import json
from pathlib import Path

import numpy as np
import pytest
from pydantic import Field
from running import run_bash

from gcbs_cli.settings import others
from gcbs_cli.settings.model import documents
from gcbs_cli.settings.plan import PRESET_OPTIONS
from tests.cli.conftest import check_refused, entry_of


def words_of(text):
    """Help without the frames of its tables."""
    return " ".join(text.replace("│", " ").split())


def test_a_new_field_is_an_option_everywhere(gcbs, folder, monkeypatch):
    class Doctor(others.Doctor):
        wishes: int = Field(3, ge=1, description="Number of wishes [three].")

    seen = []
    monkeypatch.setattr(others, "Doctor", Doctor)
    monkeypatch.setattr("gcbs_cli.cli.doctor.doctor", lambda settings: seen.append(settings.wishes))
    assert "Number of wishes [three]. [default: 3]" in words_of(gcbs("doctor", "--help").stdout)
    Path("gcbs.toml").write_text("[doctor]\nwishes = 5\n")
    for words in ([], ["--wishes", 4], ["--config", "gcbs.toml"]):
        assert gcbs("doctor", *words).exit_code == 0
    monkeypatch.setenv("GCBS_WISHES", "6")
    gcbs("doctor", "--config", "gcbs.toml")
    monkeypatch.setenv("GCBS_DOCTOR_WISHES", "7")
    gcbs("doctor")
    gcbs("doctor", "--wishes", 8)
    monkeypatch.delenv("GCBS_DOCTOR_WISHES")
    assert seen == [3, 4, 5, 6, 7, 8]
    shown = json.loads(gcbs("config", "--json", "--config", "gcbs.toml").stdout)["settings"]["doctor"]
    assert shown["wishes"] == {"value": "6", "source": "GCBS_WISHES"}
    assert "--wishes 0: expected at least 1" in gcbs("doctor", "--wishes", 0).stderr

    @documents(Doctor)
    def count(**settings):
        """Count."""

    assert "wishes: Number of wishes" in str(count.__doc__)


def test_gcbs_alone_lists_the_commands_and_a_command_alone_says_what_is_missing(gcbs, folder):
    assert gcbs().stdout == gcbs("--help").stdout
    check_refused(gcbs, ["report"], "Missing argument 'X'; gcbs report --help shows what there is, with examples")


@pytest.mark.parametrize("words", [[], ["--config", "pyproject.toml"]], ids=["found", "named"])
def test_a_file_may_not_replace_files(gcbs, folder, words):
    for key, value in (("output", "'z.npy'"), ("force", "true"), ("report", "'r.json'")):
        Path("pyproject.toml").write_text(f"[tool.gcbs.plan]\n{key} = {value}\n")
        result = gcbs("plan", "x.npy", "y.npy", *words)
        assert result.exit_code == 2
        assert f"pyproject.toml: found the unknown key 'plan.{key}'" in result.stderr


def test_stderr_names_the_file_whose_defaults_count(gcbs, folder):
    Path("pyproject.toml").write_text("[tool.gcbs]\nbatch-size = 20\n")
    assert f"defaults from {folder / 'pyproject.toml'}" in gcbs("plan", "x.npy", "y.npy").stderr
    assert gcbs("plan", "x.npy", "y.npy", "-o", "r.npy", "-q").stderr == ""


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", "2> >(exit 0)", ">/dev/full", ">&- 2>&-", "> >(exit 0)"])
def test_a_closed_or_full_stream_does_not_lose_the_plan(folder, streams):
    done = run_bash(f"gcbs plan x.npy y.npy -o perm.npy -k 20 {streams}")
    assert "Traceback" not in done.stderr
    assert sorted(np.load("perm.npy")) == list(range(300))
    assert done.returncode == 0


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full", "2> >(exit 0)"])
def test_a_closed_or_full_stderr_loses_no_line_of_stdout_and_no_exit_code(folder, stderr):
    assert run_bash(f"gcbs mine x.npy y.npy -o - -l 3 {stderr}").stdout.count("\n") == 900
    assert run_bash(f"gcbs plan none.npy {stderr}").returncode == 2


@pytest.mark.parametrize("words", ["--version", "plan x.npy y.npy -o - -k 20 -q"])
def test_what_stdout_cannot_take_fails_in_one_line(folder, words):
    done = run_bash(f"gcbs {words} > /dev/full")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "no space left" in done.stderr.lower()


def test_demo_makes_data_a_plan_and_a_page(gcbs, folder):
    shown = gcbs("demo", "try").stdout
    assert "$ gcbs plan try/pairs.parquet --preset train" in shown
    assert sorted(np.load("try/perm.npy")) == list(range(1500))
    assert "<svg" in Path("try/report.html").read_text()
    assert gcbs("demo", "try").exit_code == 2
    assert "File exists; write to another folder" in gcbs("demo", "x.npy").stderr
    assert json.loads(gcbs("demo", "try", "--force", "--json").stdout)["html"] == "try/report.html"


@pytest.fixture
def project(folder):
    """A project whose pyproject.toml has settings for gcbs."""
    Path("pyproject.toml").write_text(
        "[project]\nname = 'p'\n[tool.gcbs]\nbatch-size = 30\nquantile = 0.99\ntrials = 3\n[tool.gcbs.plan]\nseed = 7\n"
    )
    return folder


def planned(gcbs, *words):
    result = gcbs("plan", "x.npy", "y.npy", "-o", "perm.npy", "--force", "-q", *words)
    assert result.exit_code == 0, result.output
    return entry_of()


def test_a_preset_comes_after_flags_environment_and_file(gcbs, folder, monkeypatch):
    Path("pyproject.toml").write_text("[tool.gcbs.plan]\npreset = 'train'\nfn-margin = 0.9\n")
    monkeypatch.setenv("GCBS_PLAN_QUANTILE_METHOD", "exact")
    entry = planned(gcbs, "-k", 16, "--top", 8, "--method", "rcm")
    record = entry["method_settings"]
    assert (entry["method"], record["preset"], entry["graph"]["kind"], entry["graph"]["top"]) == (
        "rcm",
        "train",
        "top-m",
        8,
    )
    assert (record["fn_margin"], record["refine"]) == (0.9, PRESET_OPTIONS["refine"])
    assert record["refinement"]["swaps"] > 0
    shown = json.loads(gcbs("plan", "x.npy", "y.npy", "--dry-run", "--json").stdout)["options"]
    for name, value in (PRESET_OPTIONS | {"method": "rcm", "fn_margin": 0.9, "refine": ""}).items():
        assert f"--{name.replace('_', '-')} {value}".rstrip() in shown


def test_a_file_by_name(gcbs, project):
    Path("gcbs.toml").write_text("batch_size = 15\n[report]\ntemperature = [0.02, 0.1]\n")
    assert planned(gcbs, "--config", "gcbs.toml")["batch_size"] == 15
    result = gcbs("report", "x.npy", "y.npy", "--json", "--config=gcbs.toml")
    reports = json.loads(result.stdout)["results"]
    assert [(report["batch_size"], report["temperature"]) for report in reports] == [(15, 0.02), (15, 0.1)]


def test_the_nearest_pyproject_with_settings_counts(gcbs, project, monkeypatch):
    (project / "deep" / "deeper").mkdir(parents=True)
    monkeypatch.chdir(project / "deep" / "deeper")
    nearest = project / "deep" / "pyproject.toml"
    nearest.write_text("[project]\nname = 'q'\n")
    assert json.loads(gcbs("config", "--json").stdout)["file"] == str(project / "pyproject.toml")
    nearest.write_text("[tool.gcbs]\nseed = 1\n")
    assert json.loads(gcbs("config", "--json").stdout)["file"] == str(nearest)


def test_an_option_that_excludes_one_of_the_file_is_refused(gcbs, project):
    check_refused(gcbs, ["plan", "x.npy", "y.npy", "--per-row", 8], "--quantile and --per-row: give only one")


def test_config_shows_values_and_sources(gcbs, project, monkeypatch):
    monkeypatch.setenv("GCBS_TRIALS", "5")
    monkeypatch.setenv("GCBS_BATCH_SIZE", "20")  # an option that a report takes several times
    assert json.loads(gcbs("report", "x.npy", "y.npy", "--json").stdout)["batch_size"] == 20
    monkeypatch.delenv("GCBS_BATCH_SIZE")
    plan = json.loads(gcbs("config", "--json").stdout)["settings"]["plan"]
    file = str(project / "pyproject.toml")
    assert plan["batch-size"] == {"value": 30, "source": file}
    assert plan["seed"] == {"value": 7, "source": file}
    text = " ".join(gcbs("config").stdout.split())
    assert "GCBS_TRIALS" in text
    assert "quantile 0.99" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batchsize = 3", "did you mean batch-size?"),
        ("tool = 3", "expected the table [tool.gcbs]"),
        ("[tool]\ngcbs = 3", "expected the table [tool.gcbs]"),
        ("[plan]\ntrials = 3", "unknown key 'plan.trials'"),
        ("batch-size = 'many'", "batch-size"),
        ("batch-size = [3, 4]", "expected a whole number"),
        ("drop-last = 3", "expected a valid boolean"),
        ("batch-size = ", "is not TOML"),
        ("[plam]\nseed = 3", "did you mean plan.seed?"),
    ],
    ids=lambda value: value.replace("\n", " "),
)
def test_what_cannot_be_used_is_one_line_that_names_the_file(gcbs, folder, text, said):
    Path("gcbs.toml").write_text(text)
    result = gcbs("plan", "x.npy", "y.npy", "-o", "p.npy", "--config", "gcbs.toml")
    assert result.exit_code == 2
    assert result.stderr.startswith("gcbs: gcbs.toml")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not Path("p.npy").exists()
