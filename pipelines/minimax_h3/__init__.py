"""MiniMax-H3: pictures and their sound from text, from a first or last picture, or from ordered references.

diffusers has it as modular blocks; they are driven here, none is copied
(docs/decisions/2026-11-29-minimax-h3.md says where we step around them).
"""
