"""Metrics; `released` holds the variants that released code computes."""
