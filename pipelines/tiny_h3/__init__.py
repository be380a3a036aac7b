"""A random MiniMax-H3, small enough for any machine: made by `pipelines.tiny_h3.make`."""
