"""What a configuration names: the data, and the model with its weights."""

from __future__ import annotations

import hashlib
import logging
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import fx, nn

from chop.actions.config import ActionConfig
from chop.actions.training.threads import fitting_threads, multiplications
from chop.dataset import MaseDataModule
from chop.models import ModelInfo, get_model, get_model_info
from chop.tools.checkpoint_load import load_model

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Setting:
    """A model and the data for it, loaded and seen to fit each other."""

    data: MaseDataModule
    model: nn.Module
    model_info: ModelInfo

    @property
    def num_classes(self) -> int:
        return self.data.dataset_info.num_classes

    def fitting_threads(self, batch_size: int) -> AbstractContextManager[None]:
        """Within it, as many threads as batches of this size are worth."""
        model, features = self.model, self.data.splits.train.features[:2]
        with torch.no_grad():
            training = model.training
            work = multiplications(model.eval(), features)
            model.train(training)
        return fitting_threads(work * batch_size)

    @cached_property
    def data_hash(self) -> str:
        """The SHA-256 of all rows, part by part."""
        digest = hashlib.sha256()
        for rows in (self.data.splits.train, self.data.splits.val, self.data.splits.test):
            for tensor in rows:
                digest.update(tensor.contiguous().numpy().data)
        return digest.hexdigest()

    @property
    def is_graph(self) -> bool:
        """Whether the model is a graph that was saved, with its formats, rather than the model as it is written."""
        return isinstance(self.model, fx.GraphModule)


def prepare(config: ActionConfig, data: MaseDataModule | None = None) -> Setting:
    """The data and the model of a configuration. All that can be wrong with them is told here.

    `data` are those of the configuration, where they are loaded already.
    """
    model_info = get_model_info(config.model)
    data = data or open_data(config)
    torch.manual_seed(config.seed)
    model = get_model(config.model, config.task, data.dataset_info, options=config.model_options)
    if config.load_name is not None:
        model = load_model(load_name=str(config.load_name), load_type=config.load_type, model=model)
        _mention_graph(config.load_name)
    data.prepare_data()  # after all that can be wrong without the rows
    data.setup()
    setting = Setting(data, model, model_info)
    _check_fit(config, setting)
    return setting


def open_data(config: ActionConfig) -> MaseDataModule:
    options = dict(config.data_options)
    if config.data_path is not None:
        options["path"] = config.data_path
    return MaseDataModule(
        name=config.dataset,
        batch_size=config.batch_size,
        model_name=config.model,
        num_workers=config.num_workers,
        seed=config.seed,
        **options,
    )


def _mention_graph(path: Path) -> None:
    """The weights of a quantised graph fit the plain model too, which is seldom what one wants."""
    graph = path.parent.parent / "transform" / "transformed_ckpt"
    if path.parent.name == "training_ckpts" and graph.is_dir():
        logger.warning("%s holds weights only; with their number formats they are in %s", path, graph)


def _check_fit(config: ActionConfig, setting: Setting) -> None:
    for part, rows in (("training", setting.data.splits.train), ("test", setting.data.splits.test)):
        if len(rows.labels) == 0:
            raise ValueError(f"the {part} part of data set '{config.dataset}' has no rows")
    training = setting.model.training
    setting.model.eval()
    features = setting.data.splits.train.features[:2]
    try:
        with torch.no_grad():
            output = setting.model(features)
    except (RuntimeError, TypeError, IndexError) as error:
        raise ValueError(
            f"model '{config.model}' cannot take rows {list(features.shape)} of '{config.dataset}': {error}"
        ) from error
    finally:
        setting.model.train(training)
    wanted = (len(features), setting.num_classes)
    if not isinstance(output, torch.Tensor) or output.shape != wanted:
        shape = list(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        raise ValueError(
            f"model '{config.model}' gives {shape} for {len(features)} rows; classification on '{config.dataset}' "
            f"needs {list(wanted)}, one number a class"
        )
