"""P3IV, the planner of the paper."""
