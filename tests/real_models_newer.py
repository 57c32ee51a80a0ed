"""Tiny versions of further architectures of transformers 5: decoders, encoders and vision models."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import transformers
from torch import Tensor

import real_models_base as base
from real_models_base import RealModel, counted_by_torch, pixels, tokens

GROUPED = {**base.SIZES, "num_key_value_heads": 2}  # two key and value heads for four queries
SPECIAL = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0)
SLIDING = {"head_dim": 8, "sliding_window": 4}
LABELS = {"num_labels": 5}


def _make(
    model: str, config: str, sizes: dict[str, Any], batch: Callable[[], dict[str, Tensor]] = tokens
) -> Callable[[], RealModel]:
    """Return a function that builds a model of transformers with random weights."""

    def build() -> RealModel:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # importing DeBERTa calls torch.jit.script
            made = getattr(transformers, model)(getattr(transformers, config)(**sizes))
        return counted_by_torch(made, batch())

    return build


def _efficientnet() -> RealModel:
    config = transformers.EfficientNetConfig(
        image_size=32,
        width_coefficient=0.25,
        depth_coefficient=0.25,
        hidden_dim=320,
        initializer_range=0.2,
        **LABELS,
    )
    model, batch = transformers.EfficientNetForImageClassification(config), pixels(32)
    return counted_by_torch(base.with_batch_statistics(model, pixels(32, rows=64)), batch)


def _sound() -> dict[str, Tensor]:
    return {"input_values": torch.randn(base.ROWS, 400)}


def _both() -> dict[str, Tensor]:
    return {**tokens(), "decoder_input_ids": tokens()["input_ids"][:, :6]}


_T5 = {
    "vocab_size": base.VOCABULARY,
    "d_model": base.HIDDEN,
    "d_kv": 8,
    "d_ff": base.WIDE,
    "num_layers": base.LAYERS,
    "num_heads": base.HEADS,
}
_DISTIL = {
    "vocab_size": base.VOCABULARY,
    "dim": base.HIDDEN,
    "n_layers": base.LAYERS,
    "n_heads": base.HEADS,
    "hidden_dim": base.WIDE,
}
_FALCON = {key: value for key, value in base.SIZES.items() if key != "intermediate_size"}
_MAMBA = {
    "vocab_size": base.VOCABULARY,
    "hidden_size": base.HIDDEN,
    "num_hidden_layers": base.LAYERS,
    "state_size": 4,
}
_MIXTURE = {**GROUPED, "num_local_experts": 4}
_DEBERTA = {**base.SIZES, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
_MODERN = {**base.SIZES, "local_attention": 4, "global_attn_every_n_layers": 2}
_SWIN = {
    **{"image_size": 32, "patch_size": 2, "embed_dim": 8, "window_size": 4, "mlp_ratio": 2.0},
    **{"depths": [2, 2], "num_heads": [2, 4]},
}
_SEGFORMER = {
    **{
        "num_encoder_blocks": 2,
        "depths": [1, 1],
        "sr_ratios": [4, 1],
        "hidden_sizes": [8, 16],
        "patch_sizes": [7, 3],
    },
    **{"strides": [4, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2], "decoder_hidden_size": 16},
}
_WAV2VEC2 = {
    **base.SIZES,
    **{"conv_dim": [8, 8], "conv_kernel": [10, 3], "conv_stride": [5, 2], "num_feat_extract_layers": 2},
    **{"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2},
}

NEWER: dict[str, Callable[[], RealModel]] = {
    "Mistral": _make("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 4}),
    "Gemma 2": _make("Gemma2ForCausalLM", "Gemma2Config", {**GROUPED, **SPECIAL, **SLIDING}),
    "Gemma 3": _make("Gemma3ForCausalLM", "Gemma3TextConfig", {**GROUPED, **SPECIAL, **SLIDING}),
    "Phi-3": _make("Phi3ForCausalLM", "Phi3Config", {**GROUPED, **SPECIAL}),
    "Qwen3": _make("Qwen3ForCausalLM", "Qwen3Config", {**GROUPED, "head_dim": 8}),
    "Mixtral": _make("MixtralForCausalLM", "MixtralConfig", _MIXTURE),
    "GPT-NeoX": _make("GPTNeoXForCausalLM", "GPTNeoXConfig", {**base.SIZES, **SPECIAL}),
    "Falcon": _make("FalconForCausalLM", "FalconConfig", _FALCON),
    "Mamba": _make("MambaForCausalLM", "MambaConfig", _MAMBA),
    "T5": _make("T5ForConditionalGeneration", "T5Config", {**_T5, "decoder_start_token_id": 0}, _both),
    "DistilBERT": _make("DistilBertModel", "DistilBertConfig", _DISTIL),
    "RoBERTa": _make("RobertaForSequenceClassification", "RobertaConfig", {**base.SIZES, **LABELS}),
    "DeBERTa-v2": _make("DebertaV2Model", "DebertaV2Config", _DEBERTA),
    "ModernBERT": _make("ModernBertModel", "ModernBertConfig", {**_MODERN, **SPECIAL}),
    "CLIP vision": _make("CLIPVisionModel", "CLIPVisionConfig", base.IMAGE_SIZES, partial(pixels, 16)),
    "DINOv2": _make("Dinov2ForImageClassification", "Dinov2Config", base.IMAGE_SIZES | LABELS, partial(pixels, 16)),
    "Swin": _make("SwinForImageClassification", "SwinConfig", _SWIN | LABELS, partial(pixels, 32)),
    "SegFormer": _make("SegformerForSemanticSegmentation", "SegformerConfig", _SEGFORMER, partial(pixels, 32)),
    "EfficientNet": _efficientnet,
    "wav2vec2": _make("Wav2Vec2Model", "Wav2Vec2Config", _WAV2VEC2, _sound),
}
