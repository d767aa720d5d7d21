"""Hard negatives for each row, as lists to train with, and what the loss would be with them."""
