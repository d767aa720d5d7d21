"""What goes where: files that may not be replaced, streams, and every command in every mode of a terminal."""

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
from running import run_bash, run_gcbs, run_python


def test_file_names_that_are_not_utf8(folder):
    odd = os.fsdecode(b"\xff")
    x, y, perm, report, page = f"{odd}x.npy", f"{odd}y.npy", f"{odd}p.npy", f"{odd}r.json", f"{odd}h.html"
    os.rename("x.npy", x)
    os.rename("y.npy", y)
    for words in (
        ["plan", x, y, "-o", perm, "--report", report, "--json"],
        ["report", x, y, "-p", perm, "--html", page],
        ["check", "-p", perm, x, y],
        ["history", report],
    ):
        done = run_gcbs(*words)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert os.path.exists(perm)
    Path(page).read_text(encoding="utf-8")


COMMANDS = {
    "plan": ["plan", "x.npy", "y.npy", "-o", "new.npy", "-k", "20", "-f"],
    "dry run": ["plan", "x.npy", "y.npy", "--dry-run", "-k", "20"],
    "report": ["report", "x.npy", "y.npy", "-p", "perm.npy"],
    "report without a plan": ["report", "x.npy", "y.npy", "-k", "20"],
    "several reports": ["report", "x.npy", "y.npy", "-k", "20", "-k", "30"],
    "check": ["check", "-p", "perm.npy", "x.npy", "y.npy"],
    "history": ["history", "report.json"],
    "config": ["config"],
    "doctor": ["doctor", "--rows", "100000", "--dim", "384"],
}
COLOUR = re.compile(r"\x1b\[[0-9;]*?(3[0-7]|9[0-7]|38;)[0-9;]*m")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture
def planned(gcbs, folder):
    words = ["-o", "perm.npy", "-k", 20, "--report", "report.json", "-q"]
    assert gcbs("plan", "x.npy", "y.npy", *words).exit_code == 0
    return folder


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_every_command_in_every_mode(gcbs, planned, words):
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


def on_a_terminal(words, columns, start=("-m", "gcbs_cli"), **variables):
    """What a terminal of this width shows, and the exit code; start: what Python is called with."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, columns))
    surroundings = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    surroundings |= {"TERM": "xterm-256color", **variables}
    command = [sys.executable, *start, *words]
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=surroundings) as process:
        os.close(follower)
        shown = b""
        with suppress(OSError):  # the other end is closed
            while part := os.read(leader, 65536):
                shown += part
    os.close(leader)
    return shown.decode(errors="replace"), process.returncode


def test_a_terminal_cuts_no_line_of_a_table(planned):
    shown, code = on_a_terminal([*COMMANDS["report"], "-k", "30"], 50)
    assert code == 0
    assert "\x1b" in shown
    lines = [line.rstrip() for line in ESCAPE.sub("", shown).replace("\r", "").splitlines()]
    assert "warning: perm.npy was planned for batches of 20, but this report is for 30" in lines
    assert max(len(line) for line in lines if not line.startswith("warning: ")) <= 50


@pytest.mark.parametrize("command", ["plan", "dry run"])
def test_a_bar_is_gone_before_the_table(planned, command):
    at_once = "from gcbs_cli.cli import app, output; output.QUIET_SECONDS = 0.0; app.main()"
    words = [*COMMANDS[command], "--quantile-method", "exact"]
    shown, code = on_a_terminal(words, 80, start=("-c", at_once))
    assert code == 0
    assert "quantile" in shown.partition("\x1b[?25l")[2]
    bar, _, table = shown.rpartition("\x1b[?25h")
    assert "%" in bar
    assert "written" in table


def test_no_color_means_none_and_an_ascii_terminal_gets_no_traceback(planned):
    for words in (COMMANDS["report"], ["plan", "--help"], ["plan"]):
        shown, _ = on_a_terminal(words, 80, NO_COLOR="1")
        assert shown
        assert not COLOUR.search(shown), shown
    shown, code = on_a_terminal(COMMANDS["report"], 80, PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0")
    assert code == 0
    assert "Traceback" not in shown


@pytest.mark.parametrize("command", ["plan x.npy y.npy -o - -q -k 20", "report x.npy y.npy --json -k 20"])
def test_a_reader_that_left_is_no_traceback(planned, command):
    done = run_bash(f"gcbs {command} | head -c 1")
    assert len(done.stdout) == 1
    assert done.stderr == ""


def test_ctrl_c_ends_with_130_and_leaves_nothing(gcbs, planned, monkeypatch):
    def interrupt(*_, **__):
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


def test_a_stdout_of_text_alone_as_in_a_notebook_gets_the_lines(planned):
    code = """
import contextlib, io, sys
from gcbs_cli.cli.app import main
with contextlib.redirect_stdout(io.StringIO()) as found, contextlib.suppress(SystemExit):
    main()
print(found.getvalue())
"""
    assert "a permutation of" in run_python(code, "check", "-p", "perm.npy")


def test_what_strangers_named_does_not_steer_a_terminal(gcbs, planned):
    """File names, columns, and JSON that passes the first checks."""
    report = json.loads(Path("report.json").read_text()) | {"loss_kind": EVIL}
    Path(f"{EVIL}.json").write_text(json.dumps(report))
    shutil.copy("perm.npy", f"{EVIL}.npy")
    os.rename("x.npy", f"{EVIL}x.npy")
    for words in (
        ["history", f"{EVIL}.json"],
        ["plan", f"{EVIL}x.npy", "y.npy", "-o", f"{EVIL}2.npy"],
        ["report", f"{EVIL}x.npy", "y.npy", "-p", f"{EVIL}.npy", "-k", 30],
        ["check", "-p", f"{EVIL}.npy", f"{EVIL}x.npy", f"none{EVIL}.npy"],
        ["plan", f"{EVIL}x.npy", "y.npy", "--x-column", EVIL, "-o", "none.npy"],
        [EVIL],
    ):
        for more in ([], ["--json"]):
            shown = gcbs(*words, *more).output
            assert not [character for character in shown.replace("\n", "") if not character.isprintable()]
            assert ":bomb:" in shown.replace("\n", "") or words[0] == "report"
