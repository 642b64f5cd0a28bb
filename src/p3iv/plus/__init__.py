"""P3IV+: the paper's decoder, a linear path beside it, a chain that both are trained through, and effects to check plans by."""
