"""Frames in, files out. Knows no model and no HTTP."""
