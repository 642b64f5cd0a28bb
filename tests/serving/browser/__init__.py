"""Tests of the page. A package, so that pytest ends its fixtures of that scope after the last test of this folder."""
