"""Networks that turn pictures, clips and texts into features, one file each."""
