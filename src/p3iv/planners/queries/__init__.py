"""P3IV+ for plans of any length, and for queries with any evidence: pictures, history, words, a procedure."""
