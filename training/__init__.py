"""How the tiny checkpoints were trained: their world, its captions, a judge, and the training itself."""
