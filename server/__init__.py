"""All that a client can see, and nothing of torch."""
