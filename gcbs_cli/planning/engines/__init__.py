"""Where the parts of a plan are planned: in this process, one after the other, or as tasks of a Ray cluster.

Import from the modules; this package imports nothing itself, so that it costs nothing.
"""
