"""The checkpoints of the default configuration: small Wan 2.2 models that `training/` taught plain shapes.

They are diffusers folders. What they know and how well is in docs/training.md.
"""
