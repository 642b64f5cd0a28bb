"""Markup that is safe by construction, and the graph of plans."""
