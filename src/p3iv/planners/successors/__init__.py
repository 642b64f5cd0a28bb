"""Planners that were published after P3IV."""
