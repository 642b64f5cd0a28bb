"""The planners: P3IV, P3IV+ and the baselines, behind one interface."""
