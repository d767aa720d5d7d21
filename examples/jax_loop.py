"""Train two linear towers in JAX, with a new plan each epoch from their current embeddings.

python jax_loop.py FOLDER        x.npy and y.npy: (N, d), paired rows; needs jax beside gcbs
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import gcbs_cli as gcbs
from gcbs_cli.trainers import PlannedBatchSampler

TEMPERATURE, RATE = 0.05, 1e-2


def embed(params, x, y):
    towers = (side @ (jnp.eye(len(weights)) + weights) for side, weights in zip((x, y), params, strict=True))
    return [rows / jnp.linalg.norm(rows, axis=1, keepdims=True) for rows in towers]


def loss_of(params, x, y):
    x, y = embed(params, x, y)
    scores = x @ y.T / TEMPERATURE
    each = [jax.nn.log_softmax(scores, axis=axis).diagonal() for axis in (0, 1)]
    return -jnp.mean(jnp.stack(each))


@jax.jit
def step(params, x, y):
    loss, slopes = jax.value_and_grad(loss_of)(params, x, y)
    return jax.tree.map(lambda weights, slope: weights - RATE * slope, params, slopes), loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    asked = parser.parse_args()
    x, y = (np.load(asked.folder / f"{side}.npy").astype(np.float32) for side in "xy")
    params = [jnp.zeros((x.shape[1], x.shape[1]))] * 2
    sampler = PlannedBatchSampler(
        range(len(x)),
        asked.batch_size,
        shuffle_batches=True,
        rank=jax.process_index(),
        world_size=jax.process_count(),
    )

    def plan(sampler, step, rows):
        sides = (np.asarray(side) for side in embed(params, x, y))
        return gcbs.plan(*sides, batch_size=asked.batch_size, temperature=TEMPERATURE, preset="train").perm

    sampler.replan = plan
    for epoch in range(asked.epochs):
        sampler.set_epoch(epoch)
        losses = []
        for rows in sampler:
            params, loss = step(params, x[rows], y[rows])
            losses.append(float(loss))
        print(f"epoch {epoch}: {len(losses)} batches, mean loss {np.mean(losses):.4f}")


if __name__ == "__main__":
    main()
