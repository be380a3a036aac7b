"""Models: parameters in, chunks of frames out. Knows no HTTP and no containers."""
