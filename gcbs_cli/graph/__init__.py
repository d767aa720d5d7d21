"""The adjacency of hard negatives in CSR form, and what an order does to it."""
