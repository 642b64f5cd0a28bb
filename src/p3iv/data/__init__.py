"""The dataset folder: windows, splits and tensors; importing, simulating, checking."""
