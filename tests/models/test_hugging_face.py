"""Models of the Hugging Face hub: folders of save_pretrained, and names that cannot be downloaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from chop.models import get_model, get_model_info
from models.text_models import save_classifier, save_encoder, save_language_model

transformers = pytest.importorskip("transformers")


@pytest.mark.slow
def test_a_folder_has_the_weights_that_were_saved(tmp_path: Path) -> None:
    folder = save_language_model(tmp_path / "lm")
    info = get_model_info(f"hf/{folder}", "lm")
    assert (info.inputs, info.tasks, info.has_weights) == (("input_ids",), ("lm",), True)
    expected = transformers.LlamaForCausalLM.from_pretrained(folder).eval()
    ids = torch.arange(2, 10).unsqueeze(0)
    found = get_model(str(folder), task="lm").eval()(ids)
    assert torch.equal(found.logits, expected(ids).logits)
    assert found.past_key_values is None


def test_a_classifier_knows_its_classes(tmp_path: Path) -> None:
    info = get_model_info(str(save_classifier(tmp_path / "cls")), "cls")
    assert info.class_names == ("negative", "positive")
    assert info.inputs == ("input_ids", "attention_mask")
    assert info.tokenizer is not None
    assert info.tokenizer()("the cat")["input_ids"] == [2, 4]


@pytest.mark.slow
def test_an_image_classifier_takes_pixels_with_its_normalisation(tmp_path: Path) -> None:
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4
    )
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"image_mean": [0.5] * 3, "image_std": [0.25] * 3})
    )
    info = get_model_info(str(tmp_path), "cls")
    assert (info.inputs, info.tokenizer) == (("pixel_values",), None)
    assert info.data_options["mean"] == (0.5, 0.5, 0.5)
    assert info.build(None)(torch.zeros(1, 3, 8, 8)).logits.shape == (1, 2)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "encoder")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"has no weights .*--model-option untrained=true"):
        get_model(f"hf/{folder}", task="similarity")
    assert get_model(f"hf/{folder}", task="similarity", options={"untrained": True}) is not None


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "encoder")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    tokenizer = get_model_info(str(folder), "similarity").tokenizer
    assert tokenizer is not None
    with pytest.raises(ValueError, match=r"encoder' has no tokenizer \(such as tokenizer.json\)"):
        tokenizer()


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not a model of save_pretrained: it has no config.json"):
        get_model_info(f"hf/{tmp_path}")


def test_corrupt_weights_are_reported(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "encoder")
    (folder / "model.safetensors").write_bytes(b"hello there")
    with pytest.raises(ValueError, match=r"the model in folder .* cannot be loaded") as caught:
        get_model(str(folder), task="similarity")
    assert "\n" not in str(caught.value)


def test_a_name_that_is_not_on_this_machine_needs_pretrained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        ValueError, match=r"'hf/someone/model' is not on this machine: download it with --pretrained"
    ):
        get_model_info("hf/someone/model")


def test_a_download_without_a_network_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **options: object) -> None:
        assert options["local_files_only"] is False
        raise OSError("We couldn't connect to the hub")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", refuse)
    with pytest.raises(
        ValueError, match=r"'hf/someone/model' cannot be downloaded: check the network and the name"
    ):
        get_model_info("hf/someone/model", pretrained=True)


def test_code_of_a_repository_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}})
    )
    (tmp_path / "own.py").write_text("raise SystemExit('this must not run')\n")
    with pytest.raises(ValueError, match="if you trust them, run them with --trust-remote-code"):
        get_model_info(str(tmp_path), "similarity")


@pytest.mark.slow
def test_weights_that_do_not_fit_the_configuration_are_named(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "encoder")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 5}))
    with pytest.raises(
        ValueError, match=r"'.*word_embeddings.weight' has the shape \[18, 16\], .* needs \[5, 16\]"
    ):
        get_model(f"hf/{folder}", task="similarity")


@pytest.mark.slow
def test_the_weights_of_a_new_classifier_are_random(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "encoder")
    info = get_model_info(str(folder), "cls")
    info.build(None)
    assert info.random_weights() == ("classifier.bias", "classifier.weight")
    trained = get_model_info(str(save_classifier(tmp_path / "cls")), "cls")
    trained.build(None)
    assert trained.random_weights() == ()
