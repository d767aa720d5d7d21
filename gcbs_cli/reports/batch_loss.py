"""The loss of one batch as torch computes it, to train on and to compare a trainer's with."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def batch_loss(x: Tensor, y: Tensor, temperature: float, loss: str = "symmetric") -> Tensor:
    """The loss in a batch, nats: infonce (x→y), or symmetric, the mean of both directions.

    x: (k, d) unit rows; y: (k + h, d) their positives, then h more negatives, which only x→y sees.
    """
    logits = x @ y.T / temperature
    positives = torch.arange(len(x), device=x.device)
    forward = cross_entropy(logits, positives)
    if loss == "infonce":
        return forward
    backward = cross_entropy(logits[:, : len(x)].T, positives)
    return 0.5 * (forward + backward)
