"""p3iv plans procedures from video: two moments in, the plausible plans between them out."""

__version__ = "0.1.0"
