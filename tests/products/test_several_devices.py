"""What names of devices mean, how work is dealt to several, and that two GPUs give what one does."""

import threading
from itertools import cycle

import pytest
import torch
from running import LONGEST_WAIT

from gcbs_cli.products import devices
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.devices import choose_backend, devices_named
from gcbs_cli.products.torch_device import TorchBackend
from gcbs_cli.system.errors import BadInput, GcbsError
from gcbs_cli.system.threads import OwnedByThreads, in_order


def test_threads_own_a_thing_each_and_an_error_in_one_ends_the_work():
    owned, together = OwnedByThreads(cycle("abc")), threading.Barrier(3)

    def look(number):
        first = owned.mine
        together.wait(LONGEST_WAIT)
        return first, owned.mine

    found = list(in_order(3, range(3), look))
    assert sorted(first for first, _ in found) == ["a", "b", "c"]
    assert all(first == second for first, second in found)
    done = []

    def work(number):
        if number == 3:
            raise GcbsError("of the third")
        done.append(number)
        return number

    with pytest.raises(GcbsError, match="of the third"):
        list(in_order(2, range(1000), work))
    assert len(done) < 20


def test_products_are_those_of_float32_and_what_torch_was_told_holds_again_after_them():
    torch.set_float32_matmul_precision("high")
    with TorchBackend(["cpu"]).running():
        within = torch.get_float32_matmul_precision()
    after = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    assert (within, after) == ("highest", "high")


@pytest.fixture
def gpus(monkeypatch, request):
    """As if PyTorch saw so many, with a driver where there are any."""
    monkeypatch.setattr(devices, "_cuda_device_count", lambda: request.param)
    there = ["", "/dev/nvidiactl", "/dev/dxg"][request.param]
    monkeypatch.setattr("os.path.exists", lambda path: path == there)
    return request.param


@pytest.mark.parametrize(
    ("gpus", "name", "meant"),
    [
        (2, "cpu", ["cpu"]),
        (0, "auto", ["cpu"]),
        (2, "auto", ["cuda:0"]),
        (2, "cuda", ["cuda:0"]),
        (2, "cuda:1", ["cuda:1"]),
        (2, "cuda:0,1", ["cuda:0", "cuda:1"]),
        (2, "cuda:1,0", ["cuda:1", "cuda:0"]),
        (2, "cuda:all", ["cuda:0", "cuda:1"]),
        (1, "cuda:all", ["cuda:0"]),
    ],
    indirect=["gpus"],
)
def test_what_names_mean(gpus, name, meant):
    assert devices_named(name) == meant
    assert devices._nvidia_driver_present() == (gpus > 0)
    assert type(choose_backend(name)) is (CpuBackend if meant == ["cpu"] else TorchBackend)
    if len(meant) > 1:
        assert TorchBackend(meant).name == {"cuda:all": "cuda:0,1"}.get(name, name)


@pytest.mark.parametrize(
    ("gpus", "name", "message"),
    [
        (2, "cuda:0,7", "PyTorch sees 2 GPUs here, numbered from 0"),
        (2, "cuda:2", "PyTorch sees 2 GPUs"),
        (1, "cuda:0,1", "PyTorch sees 1 GPUs here"),
        (0, "cuda:0,1", "PyTorch sees 0 GPUs here"),
        (0, "cuda:all", "PyTorch sees 0 GPUs here"),
        (2, "cuda:0,0", "PyTorch sees 2 GPUs here, numbered from 0; name each only once"),
        (2, "cuda:0,1,1", "PyTorch sees 2 GPUs here"),
        *((2, name, "expected auto, cpu, cuda") for name in ("cuda:", "cuda:0,", "cuda:0,cpu", "cuda:-1", "cuda:²")),
        *((2, name, "expected auto, cpu, cuda") for name in ("gpu", "cpu,cpu", "auto:0", "cuda:0\n")),
    ],
    indirect=["gpus"],
)
def test_names_that_mean_nothing(gpus, name, message):
    with pytest.raises(BadInput) as refused:
        devices_named(name)
    assert str(refused.value).startswith(f"--device {name}: {message}")
