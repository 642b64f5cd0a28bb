"""The command line: `p3iv VERB ...`."""

from p3iv.cli.app import main

__all__ = ["main"]
