"""Writes requirements.lock: constraints.txt with the hashes of every file that pip would take here.

    python scripts/lock.py            needs pip and a package index; downloads, installs nothing

The hashes are those of the files for this platform and Python. Install with
`pip install --require-hashes -r requirements.lock`, then `pip install --no-deps .`.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Download every pinned package and write its hash. Returns the exit code."""
    pins = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if re.fullmatch(r"[A-Za-z0-9._-]+==\S+", line)
    ]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, *pins]
        subprocess.run(command, check=True)
        lines = []
        for pin in pins:
            files = [path for path in Path(folder).iterdir() if _is_of(path.name, pin)]
            if len(files) != 1:
                print(f"{pin}: found {[path.name for path in files]}, expected one file", file=sys.stderr)
                return 1
            digest = hashlib.sha256(files[0].read_bytes()).hexdigest()
            lines.append(f"{pin} \\\n    --hash=sha256:{digest}")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    where = f"for CPython {version} on {sys.platform}; torch is the CPU build"
    head = f"# Written by scripts/lock.py from constraints.txt, {where}.\n"
    (ROOT / "requirements.lock").write_text(head + "\n".join(lines) + "\n")
    return 0


def _is_of(file: str, pin: str) -> bool:
    name, version = pin.split("==")
    wanted = f"{re.sub(r'[-_.]+', '_', name).lower()}-{version}"
    found = re.sub(r"[-_.]+", "_", file.split("-")[0]).lower() + "-" + file.split("-")[1].removesuffix(".tar.gz")
    return found.split("+")[0] == wanted


if __name__ == "__main__":
    sys.exit(main())
