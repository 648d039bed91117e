"""What the engine would compute wrongly it refuses, in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from server_launch.reference.checkpoint import model_config
from server_launch.reference.config import CheckpointError, read_config
from server_launch.reference.weights import COMPUTE_DTYPE, Weights


def write(directory: Path, **changes: Any) -> Path:
    (directory / "config.json").write_text(json.dumps({**model_config(), **changes}), encoding="utf-8")
    return directory


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model_type", "llama"),
        ("hidden_act", "gelu"),
        ("attention_bias", True),
        ("norm_topk_prob", True),
        ("scoring_func", "sigmoid"),
        ("topk_method", "noaux_tc"),
        ("moe_layer_freq", 2),
        ("n_routed_experts", 63),
        ("eos_token_id", [1, 2]),
        ("rope_scaling", {"type": "longrope", "factor": 2}),
        ("quantization_config", {"quant_method": "fp8"}),
    ],
)
def test_unsupported_values_are_named(tmp_path: Path, key: str, value: object) -> None:
    with pytest.raises(CheckpointError, match="unsupported checkpoint") as caught:
        read_config(write(tmp_path, **{key: value}), context_limit=4096)
    assert "\n" not in str(caught.value)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    config = model_config()
    del config["kv_lora_rank"]
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(CheckpointError, match="lacks 'kv_lora_rank'"):
        read_config(tmp_path, context_limit=4096)


@pytest.mark.parametrize("content", [None, "{", "[]", '"deepseek_v2"'])
def test_what_is_no_config_is_one_line(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"config\.json") as caught:
        read_config(tmp_path, context_limit=4096)
    assert "\n" not in str(caught.value)


def test_the_context_is_cut_to_the_limit(tmp_path: Path) -> None:
    directory = write(tmp_path, max_position_embeddings=163840)
    assert read_config(directory, context_limit=4096).context_length == 4096
    assert read_config(write(tmp_path, max_position_embeddings=100), context_limit=4096).context_length == 100


@pytest.mark.parametrize("content", [None, b"torn"])
def test_weights_that_are_not_there_are_one_line(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="weights") as caught:
        Weights(tmp_path, COMPUTE_DTYPE, torch.device("cpu"))
    assert "\n" not in str(caught.value)
