"""The tokenizer of the tiny checkpoints: Unigram pieces with byte fallback, like UMT5's, without training."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import Unigram
from transformers import PreTrainedTokenizerFast

MAX_LENGTH = 512

_PAD, _END, _UNKNOWN = _SPECIAL = ("<pad>", "</s>", "<unk>")  # ids 0, 1, 2
_SPACE = "▁"
_WORDS = """
a an and are as at be by cat dog for from her his in into is it its of on one or over that the their then
through to two under up while with without man woman child people person girl boy bird horse fish bear fox
car train boat ship plane bicycle road street city town house room window door table chair garden tree
forest mountain river lake sea ocean beach wave water rain snow wind cloud sky sun moon star night day
morning evening light shadow fire smoke flower grass leaf stone sand red orange yellow green blue purple
pink black white gray golden silver dark bright small large old young slow fast close wide high low left
right front behind above below around across walking running flying swimming dancing sitting standing
looking moving turning holding wearing playing falling circle square ball camera shot view video film scene
style cinematic realistic detailed soft warm cold quiet animated slowly quickly gently
"""
_ENDINGS = "ing ed er es ly tion al en th st nd in on an re he ou ea or ar"


def build(further: Iterable[str] = ()) -> PreTrainedTokenizerFast:
    """Any Unicode text to ids below `len(tokenizer)`: pad 0, end of sequence 1, at most 512 of them.

    `further`: words that get ids of their own behind all others.
    """
    tokenizer = Tokenizer(Unigram(_pieces(further), unk_id=_SPECIAL.index(_UNKNOWN), byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(_SPACE)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(_SPACE)])
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {_END}", special_tokens=[(_END, 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=MAX_LENGTH,
        padding_side="right",
        pad_token=_PAD,
        eos_token=_END,
        unk_token=_UNKNOWN,
    )


def _pieces(further: Iterable[str]) -> list[tuple[str, float]]:
    """Pieces with their log-probabilities: one long piece always beats the short ones that it is made of."""
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    letters = [_SPACE, *(chr(code) for code in range(ord("!"), ord("~") + 1))]
    words = sorted({_SPACE + word for word in _WORDS.split()} | set(_ENDINGS.split()))
    more = [_SPACE + word for word in dict.fromkeys(further) if _SPACE + word not in words]
    return [
        *((piece, 0.0) for piece in (*_SPECIAL, *bytes_)),
        *((piece, -9.0) for piece in (*letters, *words, *more)),
    ]
