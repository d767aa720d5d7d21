"""How tests of trainers start several processes, and `gcbs apply`."""

import json

from running import run_gcbs
from toy_pairs import BATCH, ROWS
from unit_data import build_manifest

from gcbs_cli.plan_file.plans import save_plan


def torchrun(ranks):
    """torchrun on loopback, with a port of its own."""
    return ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", str(ranks)]


def save(path, perm, **settings):
    """A plan with its manifest, as `gcbs plan` writes it."""
    save_plan(path, perm, build_manifest(perm, **{"batch_size": BATCH, **settings}), force=True)
    return path


def applied(folder, plan):
    """JSONL of the toy pairs' row numbers in plan order, by `gcbs apply`."""
    (folder / "data.jsonl").write_text("".join(json.dumps({"row": row}) + "\n" for row in range(ROWS)))
    output = folder / f"{plan.stem}-reordered.jsonl"
    run_gcbs("apply", "-p", plan, folder / "data.jsonl", "-q", "-o", output, check=True)
    return output
