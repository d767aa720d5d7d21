"""Manifest entries for tests that save plans."""

from gcbs_cli.plan_file.manifest import ManifestEntry, permutation_hash


def build_entry(perm, **changed):
    """An entry of this permutation, as `gcbs plan` writes it."""
    side = {"rows": len(perm), "dim": 8, "dtype": "float16"}
    fields = {
        "tool_version": "0.1.0",
        "command": ["gcbs", "plan", "x.npy", "y.npy", "-o", "perm.npy"],
        "created": "2024-05-01T12:00:00+00:00",
        "inputs": {
            name: {"paths": [f"{name}.npy"], "name": name, "fingerprint": f"xxh3:{name}", **side} for name in "xy"
        },
        "rows": len(perm),
        "batch_size": 4,
        "temperature": 0.05,
        "seed": 0,
        "quantile": {"method": "sample", "requested": 0.999, "threshold": 0.61, "interval": (0.9985, 0.9993)},
        "graph": {"edges": 120, "isolated": 3, "max_degree": 17},
        "bandwidth": {"before": 90, "after": 20},
        "method": "rcm",
        "permutation_hash": permutation_hash(perm),
        "timings": {"edges": 0.5},
    }
    return ManifestEntry.model_validate(fields | changed)
