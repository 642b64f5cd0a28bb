"""The commands as functions: the same words, defaults and checks, with plain arguments."""
