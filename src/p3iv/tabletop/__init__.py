"""The embedded world: small tasks on a table, filmed, with known plan distributions."""
