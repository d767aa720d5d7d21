"""The kernel, compiled or interpreted."""

import importlib

import pytest


@pytest.fixture
def kernel(monkeypatch):
    """The kernel's module, as a GPU takes it, or for the interpreter; `pair_flags` chooses it anew."""
    pytest.importorskip("triton")
    from on_device import DEVICE

    from gcbs_cli.products import flag_kernel
    from gcbs_cli.products.torch_device import pair_flags

    monkeypatch.setenv("TRITON_INTERPRET", str(int(DEVICE == "cpu")))
    pair_flags.cache_clear()
    yield importlib.reload(flag_kernel)
    monkeypatch.undo()
    importlib.reload(flag_kernel)
    pair_flags.cache_clear()
