"""Tables and figures of many runs: the paper's, and comparisons made on request."""
