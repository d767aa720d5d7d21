"""One field of a model is an option everywhere: on the command line, in files, in variables and in Python."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pydantic import Field

from gcbs_cli.cli.app import COMMANDS
from gcbs_cli.cli.signature import model_of
from gcbs_cli.settings import others
from gcbs_cli.settings.model import typed_by
from gcbs_cli.system.errors import BadInput
from tests.cli.conftest import Gcbs


def words_of(text: str) -> str:
    """Help without the frames of its tables."""
    return " ".join(text.replace("│", " ").split())


def test_a_new_field_is_an_option_everywhere(gcbs: Gcbs, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert seen == [3, 4, 5, 6]
    shown = json.loads(gcbs("config", "--all", "--json", "--config", "gcbs.toml").stdout)["settings"]["doctor"]
    assert shown["wishes"] == {"value": "6", "source": "GCBS_WISHES"}
    assert "--wishes 0: expected at least 1" in gcbs("doctor", "--wishes", 0).stderr

    @typed_by(Doctor)
    def count(**settings: int) -> int:
        """Count."""
        return Doctor(**settings).wishes

    assert inspect.signature(count).parameters["wishes"].default == 3
    assert "wishes: Number of wishes" in str(count.__doc__)
    assert count(wishes=2) == 2
    with pytest.raises(BadInput, match="^wishes 0: expected at least 1"):
        count(wishes=0)


def test_the_list_of_commands_says_what_their_help_says() -> None:
    for command, said in COMMANDS.items():
        assert " ".join(str(model_of(command).__doc__).split("\n\n")[0].split()) == said


def test_help_shows_defaults_and_brackets(gcbs: Gcbs) -> None:
    shown = words_of(gcbs("plan", "--help").stdout)
    for text in ("(gcbs[ray])", "[default: 64]", "[default: (0.999)]", "[default: perm.npy]"):
        assert text in shown
    assert "[tool.gcbs]" in words_of(gcbs("config", "--help").stdout)
    assert "[OPTIONS] [X] [Y] Check that" in words_of(gcbs("check", "--help").stdout)  # no hidden argument


@pytest.mark.parametrize("words", [[], ["plan"], ["report"], ["check"]], ids=" ".join)
def test_a_command_that_is_called_with_nothing_shows_examples(gcbs: Gcbs, words: list[str]) -> None:
    result = gcbs(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    examples = [line for line in result.stderr.splitlines() if line.startswith("  gcbs ")]
    assert 2 <= len(examples) <= 3


def test_a_file_that_nobody_named_may_not_replace_files(gcbs: Gcbs, folder: Path) -> None:
    for key, value in (("output", "'z.npy'"), ("force", "true"), ("report", "'r.json'")):
        Path("pyproject.toml").write_text(f"[tool.gcbs.plan]\n{key} = {value}\n")
        result = gcbs("plan", "x.npy", "y.npy")
        assert result.exit_code == 2
        assert f"sets plan.{key}, which a file that nobody named may not" in result.stderr
    assert gcbs("plan", "x.npy", "y.npy", "--config", "pyproject.toml", "--output", "z.npy").exit_code == 0


def test_stderr_names_the_file_whose_defaults_count(gcbs: Gcbs, folder: Path) -> None:
    Path("pyproject.toml").write_text("[tool.gcbs]\nbatch-size = 20\n")
    assert f"defaults from {folder / 'pyproject.toml'}" in gcbs("plan", "x.npy", "y.npy").stderr
    assert "defaults from" not in gcbs("plan", "x.npy", "y.npy", "-o", "q.npy", "-k", "30").stderr
    assert gcbs("plan", "x.npy", "y.npy", "-o", "r.npy", "-q").stderr == ""


def run_in_bash(words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"{sys.executable} -m gcbs_cli {words}"], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", "2> >(exit 0)", ">/dev/full", ">&- 2>&-", "> >(exit 0)"])
def test_a_closed_or_full_stream_does_not_lose_the_plan(folder: Path, streams: str) -> None:
    done = run_in_bash(f"plan x.npy y.npy -o perm.npy -k 20 {streams}")
    assert "Traceback" not in done.stderr
    assert sorted(np.load("perm.npy")) == list(range(300))
    assert done.returncode == 0


@pytest.mark.parametrize("words", ["--version", "plan x.npy y.npy -o - -k 20 -q"])
def test_what_stdout_cannot_take_fails_in_one_line(folder: Path, words: str) -> None:
    done = run_in_bash(f"{words} > /dev/full")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "no space left" in done.stderr.lower()


def test_demo_makes_data_a_plan_and_a_page(gcbs: Gcbs, folder: Path) -> None:
    shown = gcbs("demo", "try").stdout
    assert "$ gcbs plan try/pairs.parquet --preset train" in shown
    assert sorted(np.load("try/perm.npy")) == list(range(1500))
    assert "<svg" in Path("try/report.html").read_text()
    assert gcbs("demo", "try").exit_code == 2
