"""One GPU where there is one, else torch's CPU device: what runs here runs there, but for the kernel, interpreted."""

import pytest
import torch

from gcbs_cli.products.torch_device import TorchBackend

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"
TWICE = [DEVICE, DEVICE]
"""The same device as two: tiles are dealt to two threads."""
needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")


class SmallDevice(TorchBackend):
    """A device that holds `most` products at once."""

    def __init__(self, most, devices):
        super().__init__(devices)
        self.most, self.freed = most, 0

    def free_memory(self):
        self.freed += 1
        super().free_memory()

    def product(self, loaded, tile):
        if tile.entries > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().product(loaded, tile)
