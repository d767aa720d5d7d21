"""A process that has imported gcbs and forks a command for each line that it reads, so that a fault costs no start."""

import os
import subprocess
import sys

FIRED = 100
"""Added to the exit code of a command in which a call was made to fail."""
CODE = f"""
FIRED = {FIRED}
import ctypes, os, sys, signal
from typer.testing import CliRunner
from gcbs_cli.cli.app import app, main
for words in sys.argv[1].splitlines():
    CliRunner().invoke(app, words.split())
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        sys.stdin = open(os.devnull)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it
        first, *words = line.split()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(os.open("../stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        failing = None
        if first[0] == "@":
            failing = ctypes.CDLL(None)
            failing.arm(*map(int, first[1:].split(",")), os.fsencode(os.getcwd()))
        else:
            words.insert(0, first)
        sys.argv = ["gcbs", *words]
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        if failing is not None and failing.fired():
            code += FIRED
        os._exit(code if isinstance(code, int) else 1)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Nursery:
    """Starts commands in a folder. `warm`: command lines that load what the commands will need."""

    def __init__(self, folder, *warm, **variables):
        self._stderr = folder.parent / "stderr"
        command = [sys.executable, "-c", CODE, "\n".join(warm)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, cwd=folder, env=os.environ | variables, **pipes)
        self._line()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.communicate()

    def start(self, line):
        """Start a command; its process id. A line that begins with @kind,n,errno makes the n-th such call fail."""
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return int(self._line())

    def ended(self):
        """Wait for the command; its exit code, or minus the signal that killed it."""
        return int(self._line())

    def run(self, line):
        """Start a command and wait for it; its exit code and the lines on stderr."""
        self.start(line)
        code = self.ended()
        return code, self._stderr.read_text(errors="replace").splitlines()

    def _line(self):
        line = self._process.stdout.readline()
        assert line, "the process that starts commands has ended"
        return line.strip()
