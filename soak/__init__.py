"""`make soak`: kills, damaged inputs, full disks and long runs, until the time is over."""
