"""No file that a command reads is replaced by it, under any name, and nothing else without --force."""

import os
import shutil
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

FILES = "x.npy y.npy soft.npy hard.npy deep/x.npy deep/linked.npy new.npy perm.npy perm.npy.manifest.json g.txt g.jsonl"
NAMES = [*FILES.split(), "deep", "shards", "shards/0.npy", "c.toml", "*.npy", "rows.jsonl"]
SPELLED = "{} ./{} deep/../{} here/{} here/deep/../{} {}/ /{} /deep/../{} ~/{} file:/{} local:/{} FILE:/{} local://~/{}"
COMMANDS = {
    "plan": "{x} {y} -k 2 -o {output} --report {second} --groups {ids} --config {config}",
    "report": "{x} {y} -k 2 -p {perm} -o {output} --html {second} --config {config} --texts {texts} --trials 1",
    "compare": "{x} {y} -k 2 --methods rcm --html {output} --groups {ids} --trials 1",
    "mine": "{x} {y} -k 2 -l 1 -o {output} --positives {ids} --trials 1",
    "apply": "{data} -p {perm} -o {output}",
}
USUAL = {
    "x": "x.npy",
    "y": "y.npy",
    "data": "rows.jsonl",
    "ids": "g.txt",
    "texts": "g.jsonl",
    "perm": "perm.npy",
    "config": "c.toml",
    "second": "second.out",
}


@pytest.fixture(scope="module")
def made(gcbs, tmp_path_factory):
    """A little of everything that is read, with links of each kind."""
    folder = tmp_path_factory.mktemp("made")
    draws = np.random.default_rng(0)
    for name in ("x.npy", "y.npy", "deep/x.npy", "store.npy"):
        (folder / name).parent.mkdir(exist_ok=True)
        np.save(folder / name, draws.normal(size=(8, 4)).astype(np.float32))
    for name in ("shards", "deep"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "soft.npy").symlink_to("x.npy")
    (folder / "hard.npy").hardlink_to(folder / "y.npy")
    (folder / "here").symlink_to(".")
    (folder / "deep" / "linked.npy").symlink_to("../store.npy")
    (folder / "shards" / "0.npy").symlink_to("../store.npy")
    (folder / "g.txt").write_text("".join(f"{row}\n" for row in range(8)))
    (folder / "g.jsonl").write_text('{"x": "a", "y": "b"}\n' * 8)
    (folder / "rows.jsonl").write_text("".join(f"{row}\n" for row in range(8)))
    (folder / "c.toml").write_text("seed = 1\n")
    with chdir(folder):
        assert gcbs("plan", "x.npy", "y.npy", "-k", 2, "-q", "--groups", "g.txt").exit_code == 0
    return folder


def contents(names):
    """What the files hold that these names lead to, those of folders, too."""
    files = [path for name in names for path in (Path(name), *Path(name).rglob("*"))]
    return {path: path.read_bytes() for path in files if path.is_file()}


@settings(max_examples=100)
@example("plan", {"x": ("shards", "{}"), "output": ("store.npy", "{}")}, "-f")
@example("plan", {"x": ("x.npy", "local://~/{}"), "output": ("x.npy", "{}")}, "-f")
@example("report", {"output": ("c.toml", "{}")}, "-f")
@example("report", {"second": ("g.jsonl", "{}")}, "-f")
@example("report", {"output": ("g.txt", "{}")}, "-f")
@example("report", {"output": ("store.npy", "{}"), "x": ("deep/linked.npy", "{}")}, "-f")
@given(
    st.sampled_from(list(COMMANDS)),
    st.dictionaries(
        st.sampled_from([*USUAL, "output"]), st.tuples(st.sampled_from(NAMES), st.sampled_from(SPELLED.split()))
    ),
    st.sampled_from(["-f", "-q"]),
)
def test_what_is_read_stays_under_any_name(gcbs, made, command, names, force):
    folder = made.parent / "copy"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(made, folder, symlinks=True)
    (folder / "hard.npy").unlink()
    (folder / "hard.npy").hardlink_to(folder / "y.npy")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HOME", str(folder))
        words = {"output": "first.jsonl" if command == "apply" else "first.npy"} | USUAL
        for key, (name, spelled) in names.items():
            words[key] = spelled.format(f"{folder}/{name}" if "/{}" in spelled and spelled[0] in "/fFl" else name)
        inputs = [words[key] for key in USUAL if f"{{{key}}}" in COMMANDS[command] and key != "second"]
        inputs += ["perm.npy.manifest.json", "g.txt"] if words["perm"] == "perm.npy" and command == "report" else []
        before, everything = contents(inputs), contents(["."])
        ended = gcbs(command, *COMMANDS[command].format(**words).split(), force)
        assert ended.exit_code in (0, 1, 2)
        if ended.exit_code != 2:
            assert contents(inputs) == before
        if ended.exit_code == 2 or force != "-f":
            assert {path: now for path, now in contents(["."]).items() if path in everything} == everything


def test_a_file_that_is_read_is_named(gcbs, made, monkeypatch):
    monkeypatch.chdir(made)
    ended = gcbs("plan", "shards", "y.npy", "-k", 2, "-o", "store.npy", "-f")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr == "gcbs: store.npy: is read by this command (shards); name another output\n"
    assert os.path.exists("store.npy")
