"""Every command in every mode: what goes where, how wide it is, how it ends."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.conftest import Gcbs

COMMANDS = {
    "plan": ["plan", "x.npy", "y.npy", "-o", "new.npy", "-k", "20", "-f"],
    "dry run": ["plan", "x.npy", "y.npy", "--dry-run", "-k", "20"],
    "report": ["report", "x.npy", "y.npy", "-p", "perm.npy"],
    "report without a plan": ["report", "x.npy", "y.npy", "-k", "20"],
    "several reports": ["report", "x.npy", "y.npy", "-k", "20", "-k", "30"],
    "check": ["check", "perm.npy", "x.npy", "y.npy"],
    "history": ["history", "report.json"],
    "config": ["config"],
    "doctor": ["doctor", "--rows", "100000", "--dim", "384", "--seconds", "0.05"],
}
COLOUR = re.compile(r"\x1b\[[0-9;]*?(3[0-7]|9[0-7]|38;)[0-9;]*m")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture
def planned(gcbs: Gcbs, folder: Path) -> Path:
    words = ["-o", "perm.npy", "-k", 20, "--report", "report.json", "-q"]
    assert gcbs("plan", "x.npy", "y.npy", *words).exit_code == 0
    return folder


@pytest.fixture(params=COMMANDS)
def words(request: pytest.FixtureRequest) -> list[str]:
    if request.param == "doctor":
        pytest.importorskip("torch")
    return COMMANDS[request.param]


def test_every_command_in_every_mode(gcbs: Gcbs, planned: Path, words: list[str]) -> None:
    plain = gcbs(*words)
    assert plain.exit_code == 0, plain.output
    assert "\x1b" not in plain.output  # no terminal, no colours
    assert max(map(len, plain.stdout.splitlines()), default=0) <= 80
    as_json = gcbs(*words, "--json")
    assert isinstance(json.loads(as_json.stdout), dict)
    assert all(line.startswith("warning: ") for line in as_json.stderr.splitlines())
    only_json = gcbs(*words, "--json", "-q")
    assert json.loads(only_json.stdout).keys() == json.loads(as_json.stdout).keys()
    assert only_json.stderr == ""
    quiet = gcbs(*words, "-q")
    assert (quiet.stdout, quiet.stderr) == ("", "")


def on_a_terminal(words: list[str], columns: int, **variables: str) -> tuple[str, int]:
    """What a terminal of this width shows, and the exit code."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, columns))
    surroundings = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    surroundings |= {"TERM": "xterm-256color", **variables}
    command = [sys.executable, "-m", "gcbs_cli", *words]
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=surroundings) as process:
        os.close(follower)
        shown = b""
        with suppress(OSError):  # the other end is closed
            while part := os.read(leader, 65536):
                shown += part
    os.close(leader)
    return shown.decode(errors="replace"), process.returncode


def test_a_terminal_cuts_no_line_and_a_warning_no_word(planned: Path) -> None:
    shown, code = on_a_terminal([*COMMANDS["report"], "-k", "30"], 50)
    assert code == 0
    assert "\x1b" in shown
    lines = [line.rstrip() for line in ESCAPE.sub("", shown).replace("\r", "").splitlines()]
    assert max(map(len, lines)) <= 50
    assert "warning: perm.npy was planned for batches of 20, and is reported for 30" in " ".join(lines)


def test_no_color_means_none(planned: Path) -> None:
    for words in (COMMANDS["report"], ["plan", "--help"], ["plan"]):
        shown, _ = on_a_terminal(words, 80, NO_COLOR="1")
        assert shown
        assert not COLOUR.search(shown), shown


def test_an_ascii_terminal_gets_question_marks_and_no_traceback(planned: Path) -> None:
    shown, code = on_a_terminal(COMMANDS["report"], 80, PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0")
    assert code == 0
    assert "Traceback" not in shown


@pytest.mark.parametrize("command", ["plan x.npy y.npy -o - -q -k 20", "report x.npy y.npy --json -k 20"])
def test_a_reader_that_left_is_no_traceback(planned: Path, command: str) -> None:
    line = f"{sys.executable} -m gcbs_cli {command} | head -c 1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert len(done.stdout) == 1
    assert done.stderr == ""


def test_ctrl_c_ends_with_130_and_leaves_nothing(gcbs: Gcbs, planned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    before = sorted(os.listdir())
    for target in ("gcbs_cli.cli.plan.make_plan", "gcbs_cli.cli.report.measure"):
        monkeypatch.setattr(target, interrupt)
    for words in (COMMANDS["plan"], [*COMMANDS["report"], "--html", "page.html"]):
        result = gcbs(*words)
        assert result.exit_code == 130
        assert "interrupted" in result.stderr
        assert sorted(os.listdir()) == before


EVIL = "\x1b]0;owned\x07\x9b31m\u202e[bold]:bomb:"


def test_what_strangers_named_does_not_steer_a_terminal(gcbs: Gcbs, planned: Path) -> None:
    """File names, columns, and JSON that passes the first checks."""
    report = json.loads(Path("report.json").read_text()) | {"loss_kind": EVIL}
    Path(f"{EVIL}.json").write_text(json.dumps(report))
    shutil.copy("perm.npy", f"{EVIL}.npy")
    os.rename("x.npy", f"{EVIL}x.npy")
    for words in (
        ["history", f"{EVIL}.json"],
        ["plan", f"{EVIL}x.npy", "y.npy", "-o", f"{EVIL}2.npy"],
        ["report", f"{EVIL}x.npy", "y.npy", "-p", f"{EVIL}.npy", "-k", 30],
        ["check", f"{EVIL}.npy", f"{EVIL}x.npy", f"none{EVIL}.npy"],
        ["plan", f"{EVIL}x.npy", "y.npy", "--x-column", EVIL, "-o", "none.npy"],
        [EVIL],
    ):
        for more in ([], ["--json"]):
            shown = gcbs(*words, *more).output
            assert not [character for character in shown.replace("\n", "") if not character.isprintable()]
            assert ":bomb:" in shown.replace("\n", "") or words[0] == "report"
