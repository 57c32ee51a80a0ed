"""Small text models with random weights, as they are published: folders of `save_pretrained` and GGUF files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

WORDS = (
    *("[PAD]", "[UNK]", "the", "a", "cat", "dog", "sat", "ran", "on", "under"),
    *("mat", "tree", "good", "bad", "very", "film", "was", "is"),
)


def make_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")


def save(folder: Path, model: Any, tokenizer: bool = True) -> Path:
    model.save_pretrained(folder)
    if tokenizer:
        make_tokenizer().save_pretrained(folder)
    return folder


def bert_config(**options: Any) -> Any:
    from transformers import BertConfig

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **sizes, **options)


def save_encoder(folder: Path) -> Path:
    from transformers import BertModel

    torch.manual_seed(0)
    return save(folder, BertModel(bert_config()))


def save_classifier(folder: Path) -> Path:
    from transformers import BertForSequenceClassification

    torch.manual_seed(0)
    labels = {0: "negative", 1: "positive"}
    config = bert_config(id2label=labels, label2id={name: index for index, name in labels.items()})
    return save(folder, BertForSequenceClassification(config))


def llama_config(**options: Any) -> Any:
    from transformers import LlamaConfig

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    defaults = {"vocab_size": len(WORDS), "intermediate_size": 32, "max_position_embeddings": 64, **sizes}
    return LlamaConfig(**defaults | options)


def save_language_model(folder: Path) -> Path:
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    return save(folder, LlamaForCausalLM(llama_config()))


def write_text(folder: Path, num_words: int = 200) -> Path:
    picked = torch.randint(2, len(WORDS), (num_words,), generator=torch.Generator().manual_seed(0))
    (folder / "story.txt").write_text(" ".join(WORDS[index] for index in picked))
    return folder / "story.txt"


def write_reviews(folder: Path, name: str = "reviews.tsv") -> Path:
    lines = [f"the film was {'good' if i % 2 else 'bad'}\t{'positive' if i % 2 else 'negative'}" for i in range(20)]
    (folder / name).write_text("\n".join(["text\tlabel", *lines]) + "\n")
    return folder / name
