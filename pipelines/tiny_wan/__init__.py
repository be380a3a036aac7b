"""Small diffusers folders with random but fixed weights, for tests and measurements; `s2v` is served by default."""
