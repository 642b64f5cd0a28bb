"""Encode the videos of a dataset as features, in one process or many."""
