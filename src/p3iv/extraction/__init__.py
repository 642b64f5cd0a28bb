"""Videos to features, in one process or many."""
