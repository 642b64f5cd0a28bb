"""Drawings of the tabletop world: one small function per object, tool and piece of clutter."""
