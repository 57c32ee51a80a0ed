"""Tiny versions, with random weights, of models that people have: the tests capture each of them."""

from __future__ import annotations

from collections.abc import Callable

import torch
import transformers
from torch import Tensor, nn

from real_models_base import (
    HEADS,
    HIDDEN,
    IMAGE_SIZES,
    LAYERS,
    LENGTH,
    ROWS,
    SIZES,
    VOCABULARY,
    WIDE,
    RealModel,
    counted_by_torch,
    pixels,
    tokens,
    with_batch_statistics,
)
from real_models_newer import NEWER


def _attention_macs(tokens: int, query: int = HIDDEN, key_value: int = HIDDEN) -> int:
    """Count the four projections, and the products of scores and values, of self-attention in one layer."""
    projections = ROWS * tokens * HIDDEN * (2 * query + 2 * key_value)
    return projections + 2 * ROWS * tokens * tokens * query


def _bert() -> RealModel:
    config = transformers.BertConfig(**SIZES, max_position_embeddings=32)
    layer = _attention_macs(LENGTH) + ROWS * LENGTH * 2 * HIDDEN * WIDE
    macs = LAYERS * layer + ROWS * HIDDEN * HIDDEN  # and the pooler
    batch = {**tokens(), "attention_mask": torch.ones(ROWS, LENGTH, dtype=torch.long)}
    return RealModel(transformers.BertModel(config), batch, macs)


def _opt() -> RealModel:
    config = transformers.OPTConfig(**SIZES, ffn_dim=WIDE, max_position_embeddings=32, word_embed_proj_dim=HIDDEN)
    layer = _attention_macs(LENGTH) + ROWS * LENGTH * 2 * HIDDEN * WIDE
    macs = LAYERS * layer + ROWS * LENGTH * HIDDEN * VOCABULARY
    return RealModel(transformers.OPTForCausalLM(config), tokens(), macs)


def _gpt2() -> RealModel:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, n_positions=32, n_inner=WIDE
    )
    layer = _attention_macs(LENGTH) + ROWS * LENGTH * 2 * HIDDEN * WIDE
    macs = LAYERS * layer + ROWS * LENGTH * HIDDEN * VOCABULARY
    return RealModel(transformers.GPT2LMHeadModel(config), tokens(), macs)


def _gated(model: nn.Module) -> RealModel:
    """Return a decoder with two key and value heads for four queries, and a gated feed-forward network."""
    layer = _attention_macs(LENGTH, key_value=HIDDEN // 2) + ROWS * LENGTH * 3 * HIDDEN * WIDE
    return RealModel(model, tokens(), LAYERS * layer + ROWS * LENGTH * HIDDEN * VOCABULARY)


def _llama() -> RealModel:
    return _gated(transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, num_key_value_heads=2)))


def _qwen() -> RealModel:
    return _gated(transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SIZES, num_key_value_heads=2)))


def _t5() -> RealModel:
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=HIDDEN, d_kv=8, d_ff=WIDE, num_layers=LAYERS, num_heads=HEADS
    )
    layer = _attention_macs(LENGTH) + ROWS * LENGTH * 2 * HIDDEN * WIDE
    return RealModel(transformers.T5EncoderModel(config), tokens(), LAYERS * layer)


def _vit() -> RealModel:
    config = transformers.ViTConfig(**IMAGE_SIZES, num_labels=5)
    length = 16 + 1
    layer = _attention_macs(length) + ROWS * length * 2 * HIDDEN * WIDE
    macs = ROWS * 16 * 3 * 16 * HIDDEN + LAYERS * layer + ROWS * HIDDEN * 5
    return RealModel(transformers.ViTForImageClassification(config), pixels(16), macs)


def _resnet() -> RealModel:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=5, layer_type="basic"
    )
    stem = 16 * 16 * 8 * 3 * 49
    first = 2 * 8 * 8 * 8 * 8 * 9
    second = 4 * 4 * 16 * 8 * 9 + 4 * 4 * 16 * 16 * 9 + 4 * 4 * 16 * 8
    return RealModel(
        transformers.ResNetForImageClassification(config), pixels(32), ROWS * (stem + first + second + 16 * 5)
    )


def _convnext() -> RealModel:
    config = transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, num_labels=5)
    stem = 8 * 8 * 8 * 3 * 16
    first = 8 * 8 * (8 * 49 + 2 * 8 * 32)
    second = 4 * 4 * (16 * 8 * 4 + 16 * 49 + 2 * 16 * 64)
    return RealModel(
        transformers.ConvNextForImageClassification(config), pixels(32), ROWS * (stem + first + second + 16 * 5)
    )


def _mobilenet() -> RealModel:
    config = transformers.MobileNetV2Config(image_size=32, depth_multiplier=0.25, num_labels=5)
    model, batch = transformers.MobileNetV2ForImageClassification(config), pixels(32)
    return counted_by_torch(with_batch_statistics(model, pixels(32, rows=64)), batch)  # 52 convolutions


def _whisper() -> RealModel:
    config = transformers.WhisperConfig(
        d_model=HIDDEN,
        encoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        encoder_ffn_dim=WIDE,
        num_mel_bins=8,
        max_source_positions=LENGTH,
        decoder_layers=1,
        decoder_attention_heads=HEADS,
        decoder_ffn_dim=WIDE,
        vocab_size=VOCABULARY,
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 0),
    )
    layer = _attention_macs(LENGTH) + ROWS * LENGTH * 2 * HIDDEN * WIDE
    convolutions = ROWS * (2 * LENGTH * HIDDEN * 8 * 3 + LENGTH * HIDDEN * HIDDEN * 3)
    batch = {"input_features": torch.randn(ROWS, 8, 2 * LENGTH)}
    encoder = transformers.WhisperModel(config).get_encoder()
    return RealModel(encoder, batch, convolutions + LAYERS * layer)


class BasicBlock(nn.Module):
    """Two convolutions, and a shortcut around them."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn1, self.bn2, self.relu = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)
        shortcut = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))
        self.downsample = shortcut if stride != 1 or channels_in != channels else None

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += x if self.downsample is None else self.downsample(x)
        y: Tensor = self.relu(out)
        return y


class ResNet18(nn.Module):
    """ResNet-18 with an eighth of its channels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn1, self.relu, self.maxpool = nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(BasicBlock(8, 8, 1), BasicBlock(8, 8, 1))
        self.layer2 = nn.Sequential(BasicBlock(8, 16, 2), BasicBlock(16, 16, 1))
        self.layer3 = nn.Sequential(BasicBlock(16, 32, 2), BasicBlock(32, 32, 1))
        self.layer4 = nn.Sequential(BasicBlock(32, 64, 2), BasicBlock(64, 64, 1))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(64, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        y: Tensor = self.fc(torch.flatten(self.avgpool(x), 1))
        return y


def _resnet18() -> RealModel:
    stem = 16 * 16 * 8 * 3 * 49
    first = 4 * 8 * 8 * 8 * 8 * 9
    later = sum(n * n * c * (c // 2 * 9 + c // 2 + 3 * c * 9) for n, c in ((4, 16), (2, 32), (1, 64)))
    return RealModel(ResNet18(), {"x": torch.randn(ROWS, 3, 32, 32)}, ROWS * (stem + first + later + 64 * 5))


def _transformer() -> RealModel:
    model = nn.Transformer(HIDDEN, HEADS, LAYERS, LAYERS, WIDE, batch_first=True)
    batch = {"src": torch.randn(ROWS, LENGTH, HIDDEN), "tgt": torch.randn(ROWS, LENGTH, HIDDEN)}
    layer = _attention_macs(LENGTH) + ROWS * LENGTH * 2 * HIDDEN * WIDE
    return RealModel(model, batch, LAYERS * (2 * layer + _attention_macs(LENGTH)))


class Recurrent(nn.Module):
    """A recurrent layer, and a linear one for its last step."""

    def __init__(self, kind: type[nn.LSTM | nn.GRU]) -> None:
        super().__init__()
        self.recurrent, self.head = kind(8, HIDDEN, batch_first=True), nn.Linear(HIDDEN, 5)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.recurrent(x)[0][:, -1])
        return y


def _recurrent(kind: type[nn.LSTM | nn.GRU], gates: int) -> RealModel:
    cells = ROWS * LENGTH * gates * HIDDEN * (8 + HIDDEN)
    return RealModel(Recurrent(kind), {"x": torch.randn(ROWS, LENGTH, 8)}, cells + ROWS * HIDDEN * 5)


MODELS: dict[str, Callable[[], RealModel]] = {
    "BERT": _bert,
    "OPT": _opt,
    "GPT-2": _gpt2,
    "Llama": _llama,
    "Qwen2": _qwen,
    "T5 encoder": _t5,
    "ViT": _vit,
    "ResNet": _resnet,
    "ConvNeXt": _convnext,
    "MobileNetV2": _mobilenet,
    "Whisper encoder": _whisper,
    "plain ResNet-18": _resnet18,
    "nn.Transformer": _transformer,
    "LSTM": lambda: _recurrent(nn.LSTM, 4),
    "GRU": lambda: _recurrent(nn.GRU, 3),
    **NEWER,
}
