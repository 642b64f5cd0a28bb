"""Measurements behind the figures in the documentation. Run one with `python -m benchmarks.NAME --help`.

Each prints what it measures and ends with one line of JSON. Scores of planners come from `p3iv compare` and
`p3iv reproduce`, not from here.
"""
