"""The time and memory from a transformer to a quantised graph, captured with torch.export."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.results import Result

SUMMARY = (
    "`flow` is capturing, the init and common metadata passes without values, and quantising, of models with "
    "random weights on one row of 128 tokens. CPU time, one thread, each model in a process of its own: the first "
    "flow, which includes imports of torch.export, and the median of three more. Memory is the peak of the process "
    "minus its memory before the model is built, relative to the weights."
)
_ROOT = Path(__file__).parents[1]

BERT_BASE = "transformers.BertModel(transformers.BertConfig())"
LLAMA_135M = (
    "transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=49152, hidden_size=576, "
    "num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3, intermediate_size=1536, "
    "tie_word_embeddings=True))"
)
_SMALL = (
    "transformers.BertModel(transformers.BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, "
    "intermediate_size=32))"
)

_MEASURE = """
import json, resource, sys, time, torch, transformers
from benchmarks.capture import flow
from benchmarks.timing import cpu_times

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

torch.set_num_threads(1)
eval(sys.argv[1].split("(")[0])  # imports
batch = {"input_ids": torch.arange(128).reshape(1, 128)}
before = peak()
model = eval(sys.argv[1]).eval()
weights = sum(parameter.nbytes for parameter in model.parameters())
(first,) = cpu_times(lambda: flow(model, batch), repeats=1, warm_up=0)
memory = (peak() - before) / weights
with torch.no_grad():
    functions = lambda: flow(model, batch), lambda: model(**batch)
    later, forward = cpu_times(*functions, repeats=int(sys.argv[2]), warm_up=0)
print(json.dumps({"first": first, "later": later, "forward": forward, "memory": memory}))
"""


def flow(model: Any, batch: dict[str, Any]) -> Any:
    """Return the quantised graph of a model."""
    from chop.ir import MaseGraph
    from chop.passes.graph import (
        add_common_metadata_analysis_pass,
        init_metadata_analysis_pass,
        quantize_transform_pass,
    )

    graph, _ = init_metadata_analysis_pass(MaseGraph(model, example_inputs=batch))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": batch, "add_value": False})
    return quantize_transform_pass(graph, {"by": "type", "linear": {"config": {"name": "mxfp"}}})[0]


def run(quick: bool = False) -> list[Result]:
    """Return all measurements; `quick` is for tests, on a small model."""
    bert = _measure(_SMALL if quick else BERT_BASE, quick)
    results = [
        Result("flow on BERT-base", bert["later"], 3.0, "s"),
        Result("the same, first in a process", bert["first"], 6.0, "s"),
        Result("the same, relative to one forward", bert["later"] / bert["forward"], 12.0, "x forward"),
        Result("memory of the flow on BERT-base", bert["memory"], 2.2, "x weights"),
    ]
    if not quick:
        llama = _measure(LLAMA_135M, quick)
        results += [
            Result("flow on a Llama with 135 M parameters", llama["later"], 6.0, "s"),
            Result("the same, first in a process", llama["first"], 9.0, "s"),
            Result("memory of the flow on this Llama", llama["memory"], 2.2, "x weights"),
        ]
    return results


def _measure(model: str, quick: bool) -> dict[str, float]:
    command = [sys.executable, "-c", _MEASURE, model, "1" if quick else "3"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=_ROOT)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured
