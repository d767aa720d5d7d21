"""The version of gcbs, where modules can read it without the package that imports them."""

VERSION = "0.1.0"
