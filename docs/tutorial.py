# %% [markdown]
# # Tutorial: from texts to a trained model
#
# A small encoder is trained from scratch to find a function's code by its description, once on random batches and once
# on planned ones. It needs `pip install 'gcbs[st]'`, no network, and a minute of processor time.
#
# ## Texts
#
# Python's own library holds thousands of pairs of text: the first paragraph of a function's docstring, and its code.

# %%
import ast
import random
import sysconfig
import time
from pathlib import Path

library = Path(sysconfig.get_path("stdlib"))
pairs = {}
for path in sorted([*library.glob("*.py"), *library.glob("[a-z]*/*.py")]):
    if not {"test", "site-packages", "idlelib"} & set(path.parts):
        for node in ast.walk(ast.parse(path.read_bytes())):
            text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
            if text and len(node.body) > 1:
                del node.body[0]
                pairs[text.split("\n\n")[0]] = ast.unparse(node)
pairs = [{"question": text, "answer": code} for text, code in sorted(pairs.items())]
random.Random(0).shuffle(pairs)
held_out, training = pairs[:1000], pairs[1000:]
print(len(training), "pairs to train on,", len(held_out), "held out. One of them:")
print(training[1]["question"], training[1]["answer"], sep="\n\n")

# %% [markdown]
# ## An encoder
#
# It averages the vectors of a text's tokens; the tokenizer is made from the training texts. It knows nothing yet. Any
# model of sentence-transformers will do in its place.

# %%
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

tokenizer = Tokenizer(models.BPE(unk_token="?"))
tokenizer.normalizer = normalizers.Lowercase()
words = [pre_tokenizers.Split("_", "removed"), pre_tokenizers.Whitespace()]
tokenizer.pre_tokenizer = pre_tokenizers.Sequence(words)
asked = trainers.BpeTrainer(vocab_size=8000, special_tokens=["?"], show_progress=False)
tokenizer.enable_truncation(128)
tokenizer.train_from_iterator((text for pair in training for text in pair.values()), asked)


def encoder(seed):
    torch.manual_seed(seed)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=128)], device="cpu")


def embed(model, pairs):
    sides = ([pair[side] for pair in pairs] for side in ("question", "answer"))
    return [model.encode(texts, normalize_embeddings=True, show_progress_bar=False) for texts in sides]


# %% [markdown]
# What counts is the mean reciprocal rank (MRR × 100) of the right code among all held-out code: 100 if it always
# comes first, 50 if it always comes second.


# %%
def mrr(model):
    questions, answers = embed(model, held_out)
    similarity = questions @ answers.T
    ranks = (similarity >= similarity.diagonal()[:, None]).sum(axis=1)
    return 100 * (1 / ranks).mean()


print(f"untrained: {mrr(encoder(0)):.1f}")

# %% [markdown]
# ## A plan
#
# A plan is an order of the pairs, cut into batches. This is one for the untrained encoder, beside random batches.

# %%
import gcbs_cli as gcbs

x, y = embed(encoder(0), training)
planned = gcbs.plan(x, y, batch_size=64, preset="train")
found = gcbs.report(x, y, planned.perm, batch_size=64)
print(f"The loss over all pairs is {found.loss.global_:.2f}.")
print(f"Random batches show {found.loss.random_mean:.2f} of it, planned ones {found.loss.plan:.2f}.")

# %% [markdown]
# An encoder that knows nothing cannot tell hard from easy, and its plan shows no more than random batches do. So the
# first epoch below is in random order, and each later one is planned from what the encoder knows by then.
#
# ## Training, random beside planned
#
# The runs differ in one line. There are two seeds, because one run says little.

# %%
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers.trainer_callback import PrinterCallback


def trained(seed, plan):
    model = encoder(seed)
    arguments = SentenceTransformerTrainingArguments(
        "out",
        num_train_epochs=4,
        per_device_train_batch_size=64,
        learning_rate=0.02,
        seed=seed,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    loss = MultipleNegativesRankingLoss(model)
    trainer = SentenceTransformerTrainer(model, arguments, train_dataset=Dataset.from_list(training), loss=loss)
    trainer.remove_callback(PrinterCallback)
    if plan:
        gcbs.plan_batches(trainer)
    trainer.train()
    return mrr(model)


seeds = [0, 1]
results = {"random": [], "planned": []}
for seed in seeds:
    for name, scores in results.items():
        began = time.perf_counter()
        scores.append(trained(seed, name == "planned"))
        print(f"seed {seed}, {name}: MRR {scores[-1]:.1f} after {time.perf_counter() - began:.0f} s", flush=True)

# %% [markdown]
# The gain is taken per seed, so what both runs share cancels; ± is the standard deviation over seeds.

# %%
import numpy as np

gains = np.subtract(results["planned"], results["random"])
for name, values in {**results, "gain": gains}.items():
    spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    print(f"{name}: {np.mean(values):.1f}{spread}")

# %% [markdown]
# ## What it shows, and what not
#
# The figures above are those of this encoder, these texts and two seeds, on a machine that was busy with other work. A
# planned epoch takes longer, because it plans: an encoder as small as this one trains faster than
# its plan is made; where an epoch takes minutes, the plan takes seconds. `gcbs compare --train` tells in minutes
# whether planning pays on your embeddings; [choosing](choosing.md) says when it does not. For other trainers:
# [trainers](trainers.md).
