"""Readers of annotation tools and subtitles: one module per format or family, each returning `VideoSpans`."""
