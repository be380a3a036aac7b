"""Small diffusers folders with random but fixed weights, for tests and figures; `s2v` is served too."""
