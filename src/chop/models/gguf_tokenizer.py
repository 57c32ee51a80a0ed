"""The tokenizer in the metadata of a GGUF file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from chop.display.extras import need
from chop.registry import closest

CONTROL = 3  # the type of tokens that do not stand for text
SPLIT_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
SPLIT_QWEN2 = SPLIT_LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
SPLITS = {"llama-bpe": SPLIT_LLAMA3, "qwen2": SPLIT_QWEN2}
DIGITS = ("smollm", "refact", "command-r")  # each digit is a token of its own
PLAIN = ("gpt-2", "default")


def make_tokenizer(path: Path, value: Callable[..., Any]) -> Any:
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
    found.add_special_tokens([token for token, kind in zip(tokens, kinds, strict=False) if kind == CONTROL])
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
