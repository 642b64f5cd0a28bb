"""Feature rows on disk, step embeddings, and the decoding of videos and pictures."""
