"""How the things of the tabletop are drawn."""
