"""Metrics; `published` holds the variants that released code computes."""
