"""GPTQ of Brevitas on a linear layer, in an environment that has Brevitas: reads and writes tensors as a file."""

from __future__ import annotations

import sys
import time

import brevitas.nn as qnn
import torch
from brevitas.graph.gptq import gptq_mode
from brevitas.quant import Int8WeightPerChannelFloat
from torch import nn


def main(path: str) -> None:
    """Round the weight in a file for the rows in it, and write the result and the seconds that it took."""
    given = torch.load(path, weights_only=True)
    torch.set_num_threads(1)
    weight, rows = given["weight"], given["rows"]
    layer = qnn.QuantLinear(
        weight.shape[1], weight.shape[0], bias=False, weight_quant=Int8WeightPerChannelFloat, weight_bit_width=4
    )
    layer.weight.data.copy_(weight)
    model = nn.Sequential(layer).eval()
    start = time.process_time()
    with torch.no_grad(), gptq_mode(model, use_quant_activations=False, act_order=True) as gptq:
        for _ in range(gptq.num_layers):
            for batch in rows.split(512):
                gptq.model(batch)
            gptq.update()
    seconds = time.process_time() - start
    torch.save({"weight": layer.quant_weight().value.detach(), "seconds": seconds}, path)


if __name__ == "__main__":
    main(sys.argv[1])
