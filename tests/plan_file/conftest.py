from collections.abc import Callable

import pytest
from plan_entries import build_entry

from gcbs_cli.plan_file.manifest import ManifestEntry


@pytest.fixture
def make_entry() -> Callable[..., ManifestEntry]:
    return build_entry
