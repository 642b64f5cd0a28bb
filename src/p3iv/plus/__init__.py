"""P3IV+: the paper's decoder, a linear path beside it, and a chain that both are trained through."""
