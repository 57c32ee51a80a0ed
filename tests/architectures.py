"""Tiny versions of the architectures of transformers, made by rules over the fields of their configurations."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.models.auto import modeling_auto

TASKS = ("CAUSAL_LM", "SEQUENCE_CLASSIFICATION", "IMAGE_CLASSIFICATION", "MASKED_LM")
VOCABULARY, SPECIAL_TOKENS = 64, 16
ROWS, LENGTH, IMAGE = 2, 10, 64

_SIZES = {
    """encoder_layers decoder_layers num_layers num_decoder_layers num_encoder_layers n_layer n_layers num_blocks
    conf_num_hidden_layers depth""": 2,
    "max_window_layers": 3,
    "first_k_dense_replace num_dense_layers moe_layer_start_index num_nextn_predict_layers": 1,
    "num_kv_shared_layers": 0,
    "pad_token_id decoder_start_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    """vocab_size vocab_size_per_layer_input decoder_vocab_size entity_vocab_size audio_vocab_size shape_vocab_size
    encoder_hash_byte_group_vocab ngram_vocab_size_base pronunciation_vocab_size""": VOCABULARY,
    """max_position_embeddings n_positions n_ctx max_seq_len model_max_length max_source_positions context_length
    max_target_positions original_max_position_embeddings""": 64,
    "window_size sliding_window attention_window_size attention_chunk_size local_attention sliding_window_size": 4,
    "image_size": IMAGE,
    "patch_size": 8,
    """hidden_size d_model n_embd embed_dim embedding_size emb_dim dim word_embed_proj_dim lru_width embedding_dim
    attention_hidden_size pooler_hidden_size input_embedding_size output_embedding_size hidden_size_global
    projection_dim projection_size decoder_hidden_size cross_attention_hidden_size prediction_head_size
    backbone_hidden_size out_hidden_size""": 32,
    """intermediate_size ffn_dim decoder_ffn_dim encoder_ffn_dim d_ff dff dim_ff d_inner n_inner hidden_dim
    ffn_hidden_size intermediate_size_mlp shared_intermediate_size dense_intermediate_size mamba_d_ssm
    moe_intermediate_size shared_expert_intermediate_size moe_shared_expert_intermediate_size feed_forward_size
    expert_ffn_hidden_size""": 64,
    "kv_lora_rank q_lora_rank o_lora_rank attention_head_dim mamba_headdim adapter_rank embedding_rank": 16,
    """head_dim v_head_dim qk_rope_head_dim qk_nope_head_dim d_kv d_head dim_head index_head_dim kv_channels
    linear_key_head_dim linear_value_head_dim linear_head_dim swa_head_dim mamba_d_head mamba_head_dim rotary_dim
    attention_head_size mamba_d_state ssm_state_size mamba_n_heads mamba_num_heads global_head_dim laurel_rank
    hidden_size_per_layer_input entity_emb_size query_pre_attn_scalar""": 8,
    """num_attention_heads encoder_attention_heads decoder_attention_heads n_head n_heads num_heads attention_heads
    num_encoder_attention_heads num_decoder_attention_heads num_experts n_routed_experts num_local_experts
    moe_num_experts linear_num_value_heads linear_num_heads swa_num_attention_heads index_topk index_n_heads
    zero_expert_num conf_num_attention_heads""": 4,
    """num_key_value_heads num_kv_heads kv_n_heads num_experts_per_tok num_experts_per_token moe_topk moe_top_k
    moe_k linear_num_key_heads swa_num_key_value_heads o_groups""": 2,
    """n_group topk_group num_expert_group n_shared_experts num_shared_experts moe_num_shared_experts n_groups
    mamba_n_groups mamba_ngroups num_codebooks num_cross_attention_heads num_self_attention_heads""": 1,
}
SIZES = {name: size for names, size in _SIZES.items() for name in names.split()}
"""The largest values of fields, by their names."""
NEEDED = [
    "vocab_size",
    "head_dim",
    "num_key_value_heads",
    "n_routed_experts",
    "n_shared_experts",
    "num_experts_per_tok",
]
"""Fields that some classes leave at None, but cannot do without."""

EXCEPTIONS: dict[str, dict[str, Any]] = {
    "ReformerModelWithLMHead": {"is_decoder": True},
    "bamba": {"attn_layer_indices": [1]},
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8}},
    "donut-swin": {"embed_dim": 48, "window_size": 2},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1},
    "efficientnet": {"width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4},
    "levit": {"patch_size": 16},
    "lilt": {"hidden_size": 48},
    "mamba2": {"head_dim": 8, "num_heads": 8},
    "neomme": {"head_dim": 16},
    "perceiver": {"num_latents": 8, "d_latents": 32, "num_self_attends_per_block": 1, "image_size": 64},
    "qwen4_exp_text": {
        "indexer_budget": 4,
        "indexer_compress_ratio": 2,
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 8,
    },
    "reformer": {"axial_pos_shape": [4, 16], "axial_pos_embds_dim": [16, 16]},
    "shieldgemma2": {"yes_token_index": 5, "no_token_index": 6},
    "swin": {"embed_dim": 48, "window_size": 2},
    "swinv2": {"embed_dim": 48},
    "t5": {"decoder_start_token_id": 0},
    "xlstm": {"hidden_size": 128, "embedding_dim": 128},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "attention_hidden_size": 64,
        "num_hidden_layers": 4,
        "attn_layer_period": 2,
        "attn_layer_offset": 0,
        "layers_block_type": ["linear_attention", "hybrid"] * 2,
    },
}
"""Values of fields where the rules do not do, by the type of a configuration or the class of a model."""


def architectures() -> dict[str, str]:
    """Return the task of each class in the mappings of transformers."""
    tasks: dict[str, str] = {}
    for task in TASKS:
        for names in getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES").values():
            for name in [names] if isinstance(names, str) else names:
                tasks.setdefault(name, task)
    return tasks


def tiny_model(name: str) -> nn.Module:
    """Return a model of a class of transformers with random weights."""
    make = getattr(transformers, name)
    config = _tiny(make.config_class(), name)
    torch.manual_seed(0)
    model: nn.Module = make(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # some are 0, or make a layer count as little as 1e-6
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return model


def batch_for(model: nn.Module, task: str, rows: int = ROWS) -> dict[str, Tensor]:
    """Return images, or tokens with a mask if the model takes one; with other rows than `ROWS`, some are masked."""
    given = str(model.main_input_name)
    if task == "IMAGE_CLASSIFICATION" and given != "input_ids":
        return {given: torch.randn(rows, 3, IMAGE, IMAGE)}
    tokens = torch.randint(SPECIAL_TOKENS, VOCABULARY, (rows, LENGTH))
    tokens[:, -1] = SIZES["eos_token_id"]  # some models look for it
    if "attention_mask" not in inspect.signature(model.forward).parameters:
        return {given: tokens}
    mask = torch.ones_like(tokens)
    mask[ROWS:, -4:] = 0
    return {given: tokens, "attention_mask": mask}


def _tiny(default: Any, model: str = "") -> Any:
    """Return a configuration with small sizes, of the class of a default one, for a class of models."""
    values = dict(_small_sizes(default)) | _layers(default)
    return type(default)(**values | EXCEPTIONS.get(default.model_type, {}) | EXCEPTIONS.get(model, {}))


def _small_sizes(default: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a configuration to which a rule applies, with their new values."""
    alias = {actual: name for name, actual in default.attribute_map.items() if name in SIZES}
    for name, value in _options(default).items():
        size = SIZES.get(name, SIZES.get(alias.get(name, "")))
        if isinstance(value, transformers.PretrainedConfig):
            yield name, _tiny(value)
        elif name == "num_key_value_heads" and value == getattr(default, "num_attention_heads", None):
            yield name, SIZES["num_attention_heads"]
        elif name == "initializer_range":
            yield name, 0.1
        elif name == "depths":
            yield name, [1 for _ in value]
        elif name.endswith(("_token_id", "_token_index")) and isinstance(value, int | None):
            yield name, 3 if size is None else size
        elif size is not None and ((value is None and name in NEEDED) or (type(value) is int and value >= size)):
            yield name, size
        elif name == "image_size" and isinstance(value, list | tuple):
            yield name, [IMAGE, IMAGE]


def _options(config: Any) -> dict[str, Any]:
    """Return the values of the fields that a configuration can be made with."""
    return {field.name: vars(config).get(field.name) for field in dataclasses.fields(config) if field.init}


def _layers(default: Any) -> dict[str, Any]:
    """Return the number of layers, one of each kind, and what is chosen by layer."""
    depth = getattr(default, "num_hidden_layers", None)
    if not isinstance(depth, int):
        return {}
    actual = default.attribute_map.get("num_hidden_layers", "num_hidden_layers")
    options = _options(default)
    by_layer = {k: v for k, v in options.items() if isinstance(v, list | tuple) and len(v) == depth > 4}
    kinds = list(zip(*(value for value in by_layer.values() if isinstance(value[0], str)), strict=True))
    first = sorted({kind: i for i, kind in reversed(list(enumerate(kinds)))}.values())
    kept = first[:6] if len(first) > 1 else [0, 1]
    lists = {name: [value[i] for i in kept] for name, value in by_layer.items()}
    return lists | ({actual: len(kept)} if actual in options else {})
