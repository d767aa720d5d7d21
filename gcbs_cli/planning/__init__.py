"""From unit rows to a permutation: the pipeline, its memory, plans in parts."""
