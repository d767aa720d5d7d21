"""The settings of each command and of the Python API."""
