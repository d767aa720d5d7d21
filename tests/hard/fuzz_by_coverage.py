"""Lets atheris (libFuzzer) look for bytes that reach new lines of a reader; needs `pip install atheris`.

    python tests/hard/fuzz_by_coverage.py npy --seconds 300

A file that the reader does not take well ends the search, and is left in the folder fuzz-failed.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
with atheris.instrument_imports(include=["gcbs_cli"]):
    # What readers import when they need it is named too: only what is imported here is watched.
    from fuzz_inputs import WAYS, input_of
    from fuzz_targets import TARGETS, attempt

    import gcbs_cli.cli.app
    import gcbs_cli.comparison.history
    import gcbs_cli.plan_file.permutation  # noqa: F401

SECONDS_A_TRY = 60
MEMORY_MIB = 3072


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=300)
    options = parser.parse_args()
    folder, failed = Path(tempfile.mkdtemp()), Path("fuzz-failed")
    seeds = folder / "seeds"
    seeds.mkdir()
    failed.mkdir(exist_ok=True)
    for way in WAYS:
        for seed in range(20):
            name = f"{way}-{seed}".replace(" ", "-")
            (seeds / name).write_bytes(input_of(options.target, way, seed))
    words = [f"-max_total_time={options.seconds}", f"-timeout={SECONDS_A_TRY}", f"-rss_limit_mb={MEMORY_MIB}"]
    words += [f"-artifact_prefix={failed}/{options.target}-", "-max_len=20000", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], str(seeds), *words], lambda data: attempt(options.target, data, folder))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
