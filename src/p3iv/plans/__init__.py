"""What every planner is asked: chains, samples, decoded plans, plan distributions."""
