"""Annotations of every release and tool, read into `Video`s."""
