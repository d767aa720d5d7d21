"""A sentence encoder that averages a vector for each word, and texts of six words for it."""

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers
from toy_pairs import ROWS

try:
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
except ModuleNotFoundError:  # before version 5.4
    from sentence_transformers.models import StaticEmbedding

WORDS = [f"w{number}" for number in range(60)]
LENGTH = 6


def text_pairs(rows=ROWS, seed=0):
    """Pairs that share four of their words."""
    rng = np.random.default_rng(seed)
    left, other = rng.choice(WORDS, (2, rows, LENGTH))
    right = np.where(np.arange(LENGTH) < 4, left, other)
    return Dataset.from_dict({"anchor": [" ".join(row) for row in left], "positive": [" ".join(row) for row in right]})


def sentence_encoder():
    """The same on every call; a word's number is its token."""
    tokens = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token=WORDS[0]))
    tokens.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    torch.manual_seed(0)
    return SentenceTransformer(modules=[StaticEmbedding(tokens, embedding_dim=16)], device="cpu")


def tiny_transformer(folder):
    """A transformer of one layer, without dropout; cached losses take no averages of word vectors."""
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token=WORDS[0]))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    BertModel(BertConfig(vocab_size=len(WORDS), max_position_embeddings=8, **size, **none)).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token=WORDS[0], pad_token=WORDS[0]).save_pretrained(folder)
    return SentenceTransformer(str(folder), device="cpu")


class RowsOfTexts:
    """Finds the rows of texts by their tokens."""

    def __init__(self, texts):
        self.rows = {tuple(int(word[1:]) for word in text.split()): row for row, text in enumerate(texts)}

    def __call__(self, tokens):
        return [self.rows[tuple(words)] for words in tokens.reshape(-1, LENGTH).tolist()]
