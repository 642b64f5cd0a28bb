"""P3IV+, our planner beyond the paper."""
