"""Drawings of everything that the tabletop videos show."""
