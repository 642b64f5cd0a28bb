"""Plans and their probabilities, the same for every planner: chains, samples, decoding, plan distributions."""
