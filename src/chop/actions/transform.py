"""`ch transform`: the passes of a TOML file over a model, and the graph that comes out."""

from __future__ import annotations

import logging
from datetime import date
from pathlib import Path

import torch

from chop.actions.config import TransformConfig
from chop.dataset import MaseDataModule
from chop.ir import MaseGraph
from chop.models import get_model, get_model_info
from chop.passes import PASSES
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    add_software_metadata_analysis_pass,
    init_metadata_analysis_pass,
    save_mase_graph_interface_pass,
    summarize_quantization_analysis_pass,
)
from chop.passes.graph.utils import deepcopy_mase_graph
from chop.tools.checkpoint_load import load_model
from chop.tools.get_input import InputGenerator

logger = logging.getLogger(__name__)


def transform(config: TransformConfig) -> Path:
    """Run the passes of `config` over its model; the folder with the summary and the graph is returned."""
    passes = [(PASSES[name], arguments) for name, arguments in config.passes.items()]
    if config.accelerator == "gpu":
        logger.warning("transform runs on the CPU: accelerator 'gpu' has no effect")
    torch.manual_seed(config.seed)
    graph = annotated_graph(config)
    original = deepcopy_mase_graph(graph)
    for run_pass, arguments in passes:
        graph, _ = run_pass(graph, arguments)
    folder = make_folder(config) / "software" / "transform"
    folder.mkdir(parents=True)
    summarize_quantization_analysis_pass(original, graph, save_dir=folder)
    save_mase_graph_interface_pass(graph, {"save_dir": folder / "transformed_ckpt"})
    return folder


def annotated_graph(config: TransformConfig) -> MaseGraph:
    """The model's graph with the metadata that one batch of the data set gives."""
    model_info = get_model_info(config.model)
    data_module = MaseDataModule(
        name=config.dataset,
        batch_size=config.batch_size,
        model_name=config.model,
        num_workers=config.num_workers,
        seed=config.seed,
    )
    model = get_model(config.model, task=config.task, dataset_info=data_module.dataset_info, pretrained=False)
    if config.load_name is not None:
        model = load_model(load_name=str(config.load_name), load_type=config.load_type, model=model)
    data_module.prepare_data()  # after all that can be wrong without the rows
    data_module.setup()
    batches = InputGenerator(
        data_module=data_module, model_info=model_info, task=config.task, which_dataloader="train"
    )
    graph, _ = init_metadata_analysis_pass(MaseGraph(model=model), None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": next(iter(batches))})
    graph, _ = add_software_metadata_analysis_pass(graph, None)
    return graph


def make_folder(config: TransformConfig) -> Path:
    """A new folder for this run; the second of a day ends in _2, and none is ever written over."""
    task = {"cls": "classification"}[config.task]
    name = f"{config.model}_{task}_{config.dataset}_{date.today().isoformat()}"
    folder, number = config.project_dir / name, 1
    while True:
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            number += 1
            folder = folder.with_name(f"{name}_{number}")
