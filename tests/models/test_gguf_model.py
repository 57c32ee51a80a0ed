"""Models in GGUF files, written here as llama.cpp's converter does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from chop.models import get_model, get_model_info
from models.text_models import llama_config

transformers = pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")

LETTERS = [*"abcdefghijklmnopqrstuvwxyz0123456789", "Ġ", "Ċ"]
TOKENS = ["<end>", *LETTERS, "th", "the", "Ġthe", "12"]
MERGES = ["t h", "th e", "Ġ the", "1 2"]


def make_model() -> Any:
    torch.manual_seed(0)
    config = llama_config(vocab_size=len(TOKENS), tie_word_embeddings=True, rope_theta=5000.0, rms_norm_eps=1e-3)
    return transformers.LlamaForCausalLM(config).eval()


def pairs_first(weight: Tensor, num_heads: int) -> Tensor:
    """Order the rows of each head as llama.cpp does: 0, half, 1, half + 1, ..."""
    half = len(weight) // num_heads // 2
    order = [head * 2 * half + i + part * half for head in range(num_heads) for i in range(half) for part in (0, 1)]
    return weight[order]


def write_gguf(path: Path, model: Any, pre: str = "smollm", architecture: str = "llama") -> Path:
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(5000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] + [1] * (len(TOKENS) - 1))
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(0)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for key, parameter in model.named_parameters():
        weight = parameter.detach()
        if "q_proj" in key or "k_proj" in key:
            heads = config.num_attention_heads if "q_proj" in key else config.num_key_value_heads
            weight = pairs_first(weight, heads)
        writer.add_tensor(names.get_name(key, try_suffixes=(".weight",)), weight.numpy().astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.slow
def test_a_file_gives_the_model_that_was_written(tmp_path: Path) -> None:
    original = make_model()
    path = write_gguf(tmp_path / "tiny.gguf", original)
    found: Any = get_model(str(path), task="lm").eval()
    ids = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
    torch.testing.assert_close(found(ids).logits, original(ids).logits)
    assert found.lm_head.weight is found.model.embed_tokens.weight


def test_the_tokenizer_merges_letters_and_keeps_digits_apart(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", make_model())
    tokenizer = get_model_info(str(path)).tokenizer
    assert tokenizer is not None
    encode = tokenizer()
    assert encode.convert_ids_to_tokens(encode("the cat 12<end>")["input_ids"]) == (
        ["the", "Ġ", "c", "a", "t", "Ġ", "1", "2", "<end>"]
    )
    assert encode.decode(encode("the 12")["input_ids"]) == "the 12"
    plain = get_model_info(str(write_gguf(tmp_path / "plain.gguf", make_model(), pre="gpt-2"))).tokenizer
    assert plain is not None
    assert "12" in plain().convert_ids_to_tokens(plain()("the 12")["input_ids"])


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "is corrupt, or not a GGUF file"), (b"GGUF junk and more junk", "is corrupt")]
)
def test_a_corrupt_file_is_reported(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "bad.gguf").write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        get_model(str(tmp_path / "bad.gguf"), task="lm")


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        get_model_info(str(tmp_path / "none.gguf"))


def test_an_unknown_architecture_and_tokenizer_are_reported(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "other.gguf", make_model(), architecture="mamba")
    with pytest.raises(ValueError, match="architecture 'mamba'; known: llama, qwen2, qwen3"):
        get_model_info(str(path))
    tokenizer = get_model_info(str(write_gguf(tmp_path / "own.gguf", make_model(), pre="own"))).tokenizer
    assert tokenizer is not None
    with pytest.raises(ValueError, match="a tokenizer of the unknown kind 'own'"):
        tokenizer()
