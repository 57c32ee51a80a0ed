"""Models of the Hugging Face hub, and folders of `save_pretrained`, loaded with transformers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast

import torch
from safetensors import SafetensorError
from torch import nn

from chop.display.extras import need
from chop.files import read_json
from chop.models.base import DataInfo, ModelInfo, Normalization
from chop.task_names import HUGGING_FACE, model_folder

logger = logging.getLogger(__name__)

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")  # patterns of file names
TOKENIZER = ("tokenizer*", "vocab*", "*.model")
AUTO_CLASSES = {"lm": "AutoModelForCausalLM", "similarity": "AutoModel"}
MAX_REASON_LENGTH = 300  # of an error message of transformers


class HuggingFaceModel:
    """A folder of `save_pretrained`, or an ID on the hub that is in the cache or may be downloaded."""

    def __init__(self, name: str, task: str | None, download: bool, trust_remote_code: bool = False) -> None:
        self.name, self.download, self.trust_remote_code = name, download, trust_remote_code
        self.transformers: Any = need("transformers", f"model '{name}'")  # a module without usable types
        folder = model_folder(name)
        self.folder = folder if folder.is_dir() else None
        self.source = str(folder) if self.folder else name.removeprefix(HUGGING_FACE)
        if self.folder is not None and not (folder / "config.json").is_file():
            raise ValueError(f"folder '{folder}' is not a model of save_pretrained: it has no config.json")
        self.task = task or "cls"
        self.random_weights: tuple[str, ...] = ()
        """Weights of the built model that the source does not have, such as those of a new classifier."""

    @cached_property
    def config(self) -> Any:
        return self._load("AutoConfig")

    @property
    def takes_images(self) -> bool:
        images = self.transformers.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING
        return type(self.config) in images and self.task == "cls"

    @property
    def inputs(self) -> tuple[str, ...]:
        if self.takes_images:
            return ("pixel_values",)
        return ("input_ids",) if self.task == "lm" else ("input_ids", "attention_mask")

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes of a model that was trained as a classifier."""
        is_classifier = any("Classification" in name for name in self.config.architectures or ())
        labels = self.config.id2label if is_classifier else {}
        return tuple(str(labels[index]) for index in sorted(labels))

    @property
    def normalization(self) -> Normalization | None:
        path = None if self.folder is None else self.folder / "preprocessor_config.json"
        found = read_json(path) if path is not None and path.is_file() else {}
        if "image_mean" not in found or "image_std" not in found:
            return None
        return Normalization(tuple(found["image_mean"]), tuple(found["image_std"]))

    def tokenizer(self) -> Any:
        """Return the tokenizer of the model."""
        if self._lacks(TOKENIZER):
            raise ValueError(
                f"folder '{self.folder}' has no tokenizer (such as tokenizer.json): save it there with "
                "tokenizer.save_pretrained"
            )
        return self._load("AutoTokenizer", what="tokenizer")

    def build(
        self,
        info: DataInfo | None = None,
        untrained: bool = False,
        attention: str = "sdpa",
    ) -> nn.Module:
        """A model of the Hugging Face hub.

        With `untrained`, weights are random. `attention` is an implementation that transformers knows, such as
        `eager` or `sdpa`.
        """
        options: dict[str, Any] = {}
        if self.task == "cls" and not self.class_names and info is not None:
            options["num_labels"] = info.num_classes
        auto = AUTO_CLASSES.get(
            self.task, f"AutoModelFor{'Image' if self.takes_images else 'Sequence'}Classification"
        )
        common: dict[str, Any] = {"dtype": torch.float32, "attn_implementation": attention}
        if untrained:
            config = self._load("AutoConfig", **options)
            make = getattr(self.transformers, auto).from_config
            model = make(config, trust_remote_code=self.trust_remote_code, **common)
            self.random_weights = tuple(name for name, _ in model.named_parameters())
        else:
            if self._lacks(WEIGHTS):
                raise ValueError(
                    f"folder '{self.folder}' has no weights ({' or '.join(WEIGHTS)}); "
                    "for random weights use --model-option untrained=true"
                )
            common |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
            model, report = self._load(auto, **common, **options)
            for name, stored, expected in sorted(report["mismatched_keys"]):
                raise ValueError(
                    f"the weights of '{self.source}' do not fit its config.json: '{name}' has the shape "
                    f"{list(stored)}, but the configuration needs {list(expected)}"
                )
            unused = self.task == "similarity"  # by which only the last hidden state is used, not a pooler after it
            self.random_weights = () if unused else tuple(sorted(report["missing_keys"]))
        model.config.use_cache = False  # the outputs are scores only
        return cast(nn.Module, model)

    def _lacks(self, patterns: tuple[str, ...]) -> bool:
        """Whether the model is a folder without a file of these patterns."""
        return self.folder is not None and not any(path for each in patterns for path in self.folder.glob(each))

    def _load(self, auto: str, what: str = "model", **options: Any) -> Any:
        """Return what a class of transformers loads; its errors become one sentence."""
        try:
            with quiet(self.transformers):
                return getattr(self.transformers, auto).from_pretrained(
                    self.source,
                    local_files_only=self.folder is not None or not self.download,
                    trust_remote_code=self.trust_remote_code,
                    **options,
                )
        except (OSError, ValueError, ImportError, KeyError, RuntimeError, SafetensorError) as error:
            raise ValueError(self._explain(error, what)) from error

    def _explain(self, error: Exception, what: str) -> str:
        reason = " ".join(str(error).split())
        if "trust_remote_code" in reason:
            return (
                f"model '{self.name}' needs Python files of its repository; if you trust them, "
                "run them with --trust-remote-code"
            )
        if self.folder is not None:
            return f"the {what} in folder '{self.folder}' cannot be loaded: {reason[:MAX_REASON_LENGTH]}"
        if not self.download:
            return (
                f"model '{self.name}' is not on this machine: download it with --pretrained, "
                "or give a folder of save_pretrained"
            )
        return (
            f"the {what} of '{self.name}' cannot be downloaded: check the network and the name, "
            "or give a folder of save_pretrained"
        )


def describe_hugging_face(name: str, task: str | None, pretrained: bool, trust_remote_code: bool) -> ModelInfo:
    """Return the description of `hf/ID`, `hf/FOLDER` or a folder of `save_pretrained`."""
    source = HuggingFaceModel(name, task, pretrained, trust_remote_code)
    return ModelInfo(
        name=name,
        make=source.build,
        inputs=source.inputs,
        tasks=(source.task,),
        summary=f"{type(source.config).__name__.removesuffix('Config')} of the Hugging Face hub.",
        sample_dims=3 if source.takes_images else 2 if len(source.inputs) > 1 else 1,
        normalization=source.normalization if source.takes_images else None,
        tokenizer=None if source.takes_images else source.tokenizer,
        class_names=source.class_names,
        has_weights=True,
        random_weights=lambda: source.random_weights,
    )


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Let transformers log errors only, and show no progress bars."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    hub = logging.getLogger("huggingface_hub")  # which reports every repeated attempt to connect
    hub_level = hub.level
    hub.setLevel(logging.ERROR)
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        hub.setLevel(hub_level)
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
