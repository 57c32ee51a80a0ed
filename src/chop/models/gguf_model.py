"""Language models in GGUF files, the format of llama.cpp: weights are converted to float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from chop.display.extras import need
from chop.models.base import ModelInfo
from chop.models.hugging_face import quiet
from chop.registry import closest

ARCHITECTURES = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}
"""Names of architectures in GGUF files, with the prefixes of the classes of transformers."""
OPTIONS = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "rope_theta": "rope.freq_base",
}
"""Options of the configurations of transformers, with the keys of their values in GGUF files."""

CONTROL_TOKEN = 3  # the type of tokens that do not stand for text
SPLIT_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
SPLIT_QWEN2 = SPLIT_LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
SPLITS = {"llama-bpe": SPLIT_LLAMA3, "qwen2": SPLIT_QWEN2}
DIGITS = ("smollm", "refact", "command-r")  # each digit is a token of its own
PLAIN = ("gpt-2", "default")


class GGUFModel:
    """A GGUF file: its metadata, its tokenizer and its weights."""

    def __init__(self, path: str) -> None:
        self.path = Path(path).expanduser()
        if not self.path.is_file():
            raise ValueError(f"GGUF file '{path}' does not exist")
        purpose = f"reading '{self.path.name}'"
        self.gguf: Any = need("gguf", purpose)
        self.transformers: Any = need("transformers", purpose)

    @cached_property
    def _reader(self) -> Any:
        try:
            return self.gguf.GGUFReader(self.path)
        except Exception as error:  # a corrupt file causes errors of all kinds
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ValueError(f"'{self.path}' is corrupt, or not a GGUF file: {reason}") from error

    @cached_property
    def architecture(self) -> str:
        name = str(self.value("general.architecture"))
        if name not in ARCHITECTURES:
            raise ValueError(f"'{self.path}' holds a model of architecture '{name}'; {closest('', ARCHITECTURES)}")
        return name

    def value(self, key: str, default: object = None) -> Any:
        """Return the value of a key of the metadata."""
        field = self._reader.fields.get(key)
        return default if field is None else field.contents()

    def tokenizer(self) -> Any:
        """Return the tokenizer, as one of transformers."""
        return _tokenizer(self.path, self.value)

    @cached_property
    def _tensors(self) -> dict[str, Any]:
        return {tensor.name: tensor for tensor in self._reader.tensors}

    def config(self) -> Any:
        """Return the configuration of the model of transformers."""
        values = {name: self.value(f"{self.architecture}.{key}") for name, key in OPTIONS.items()}
        make = getattr(self.transformers, f"{ARCHITECTURES[self.architecture]}Config")
        return make(
            **{name: value for name, value in values.items() if value is not None},
            vocab_size=self._tensors["token_embd.weight"].shape[1].item(),
            tie_word_embeddings="output.weight" not in self._tensors,
            use_cache=False,
        )

    def build(self, attention: str = "sdpa") -> nn.Module:
        """A language model from a GGUF file, in float32.

        `attention` is an implementation that transformers knows, such as `eager` or `sdpa`.
        """
        config = self.config()
        config._attn_implementation = attention
        make = getattr(self.transformers, f"{ARCHITECTURES[self.architecture]}ForCausalLM")
        with quiet(self.transformers):
            model = make(config)
        kind = next(kind for kind, name in self.gguf.MODEL_ARCH_NAMES.items() if name == self.architecture)
        names = self.gguf.get_tensor_name_map(kind, config.num_hidden_layers)
        with torch.no_grad():
            for key, parameter in model.named_parameters():  # tied weights once
                name = names.get_name(key, try_suffixes=(".weight", ".bias"))
                parameter.copy_(self._read(name, key, config))
        for attribute in ("_tensors", "_reader"):
            vars(self).pop(attribute)  # the file, which stays in memory as long as they exist
        return cast(nn.Module, model.eval())

    def _read(self, name: str | None, key: str, config: Any) -> Tensor:
        if name not in self._tensors:
            raise ValueError(f"'{self.path}' has no tensor '{name}' for the weight '{key}'")
        tensor = self._tensors[name]
        weight = torch.from_numpy(np.array(self.gguf.quants.dequantize(tensor.data, tensor.tensor_type)))
        if self.architecture == "llama" and ("q_proj" in key or "k_proj" in key):
            heads = config.num_attention_heads if "q_proj" in key else config.num_key_value_heads
            # llama.cpp rotates neighbouring pairs of rows of a head, transformers its two halves
            pairs = weight.reshape(heads, -1, 2, *weight.shape[1:])
            return pairs.transpose(1, 2).reshape(weight.shape)
        return weight


def describe_gguf(name: str) -> ModelInfo:
    """Return the description of the model in a GGUF file."""
    source = GGUFModel(name)
    return ModelInfo(
        name=name,
        make=source.build,
        inputs=("input_ids",),
        tasks=("lm",),
        summary=f"A language model of architecture {source.architecture}.",
        sample_dims=1,
        tokenizer=source.tokenizer,
        has_weights=True,
    )


def _tokenizer(path: Path, value: Callable[..., Any]) -> Any:
    """Return a tokenizer of transformers; `value` returns the metadata of the file by key."""
    transformers = need("transformers", f"the tokenizer of '{path.name}'")
    kind = value("tokenizer.ggml.model")
    if kind != "gpt2":
        return transformers.AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    tokens = value("tokenizer.ggml.tokens")

    def name(key: str) -> str | None:
        index = value(f"tokenizer.ggml.{key}_token_id")
        return None if index is None else str(tokens[index])

    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=_byte_level_bpe(path, tokens, value),
        bos_token=name("bos"),
        eos_token=name("eos"),
        unk_token=name("unknown"),
        pad_token=name("padding") or name("eos"),
    )


def _byte_level_bpe(path: Path, tokens: list[str], value: Callable[..., Any]) -> Any:
    tokenizers = need("tokenizers", f"the tokenizer of '{path.name}'")
    merges = [tuple(pair.split(" ")) for pair in value("tokenizer.ggml.merges")]
    found = tokenizers.Tokenizer(tokenizers.models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    split = str(value("tokenizer.ggml.pre", "default"))
    found.pre_tokenizer = _pre_tokenizer(path, split, tokenizers.pre_tokenizers, tokenizers.Regex)
    found.decoder = tokenizers.decoders.ByteLevel()
    kinds = value("tokenizer.ggml.token_type", [])
    found.add_special_tokens([token for token, kind in zip(tokens, kinds, strict=False) if kind == CONTROL_TOKEN])
    if value("tokenizer.ggml.add_bos_token", False):
        first = value("tokenizer.ggml.bos_token_id")
        found.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{tokens[first]} $A", special_tokens=[(tokens[first], first)]
        )
    return found


def _pre_tokenizer(path: Path, split: str, kinds: Any, regex: Any) -> Any:
    """Return what divides a text into words, by its name in the file."""
    if split in PLAIN:
        return kinds.ByteLevel(add_prefix_space=False)
    if split in DIGITS:
        return kinds.Sequence([kinds.Digits(individual_digits=True), kinds.ByteLevel(add_prefix_space=False)])
    if split in SPLITS:
        words = kinds.Split(regex(SPLITS[split]), behavior="isolated")
        return kinds.Sequence([words, kinds.ByteLevel(add_prefix_space=False, use_regex=False)])
    known = [*PLAIN, *DIGITS, *SPLITS]
    raise ValueError(f"'{path}' has a tokenizer of the unknown kind '{split}'; {closest(split, known)}")
