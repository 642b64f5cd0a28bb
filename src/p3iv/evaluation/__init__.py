"""Scoring a trained planner, and scoring prediction files."""
