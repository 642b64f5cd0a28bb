"""P3IV+: the paper's decoder and a linear path, the chain they are trained through, and effects to check plans by."""
