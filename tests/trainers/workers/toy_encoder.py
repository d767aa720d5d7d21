"""Two-layer BERT encoders of a few thousand parameters, made from a config, and texts for them."""

import functools
import tempfile

import numpy as np
import torch
from datasets import Dataset
from toy_pairs import ROWS

WORDS = [f"w{number}" for number in range(60)]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]


def texts(rows: int = ROWS, seed: int = 0) -> tuple[list[str], list[str]]:
    """Pairs that share most of their words."""
    rng = np.random.default_rng(seed)
    left = [rng.choice(WORDS, 6) for _ in range(rows)]
    right = [np.concatenate([words[:4], rng.choice(WORDS, 2)]) for words in left]
    return [" ".join(words) for words in left], [" ".join(words) for words in right]


def text_pairs(rows: int = ROWS, seed: int = 0) -> Dataset:
    left, right = texts(rows, seed)
    return Dataset.from_dict({"anchor": left, "positive": right})


def sentence_encoder():  # SentenceTransformer
    """A two-layer BERT without dropout, the same on every call."""
    from sentence_transformers import SentenceTransformer

    try:
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    except ModuleNotFoundError:  # before version 5.4
        from sentence_transformers.models import Pooling, Transformer

    word = Transformer(make_bert_folder(), max_seq_length=16)
    return SentenceTransformer(modules=[word, Pooling(bert_config().hidden_size)], device="cpu")


@functools.cache  # once a process group runs, only its first rank saves a model
def make_bert_folder() -> str:
    from transformers import BertModel

    folder = tempfile.mkdtemp()
    torch.manual_seed(0)
    BertModel(bert_config()).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def bert_config():  # BertConfig
    from transformers import BertConfig

    return BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


def tokenizer():  # PreTrainedTokenizerFast
    """One token a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=words, **names)
