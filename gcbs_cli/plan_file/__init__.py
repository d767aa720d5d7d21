"""The files of a plan: the permutation and its manifest, written atomically, read back and checked.

Import from the modules; this package imports nothing itself, so that it costs nothing.
"""
