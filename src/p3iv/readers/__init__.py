"""Readers of annotations: one module per release or tool, each returning `Annotations`."""
