"""The checkpoints of the default configuration: small diffusers folders with random but fixed weights."""
