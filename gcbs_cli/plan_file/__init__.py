"""The files of a plan: the permutation and its manifest, written atomically, read back and checked."""
