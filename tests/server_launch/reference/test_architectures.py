"""Other members of the family, saved by Hugging Face itself: the same logits, in prefill and in decode."""

from pathlib import Path
from typing import Any

import pytest
import torch

from server_launch.reference.checkpoint import default_checkpoint
from tests.server_launch.reference.solo import Solo

SMALL: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 16,
    "num_hidden_layers": 3,
    "first_k_dense_replace": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": None,
    "kv_lora_rank": 24,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 16,
    "v_head_dim": 12,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "n_shared_experts": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "rope_theta": 10000.0,
}
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 64,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 0.707,
    "mscale_all_dim": 0.5,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "compressed queries": {"q_lora_rank": 20},
    "grouped experts": {"topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5},
    "yarn": {"rope_scaling": YARN},
    "yarn without mscale": {"rope_scaling": {**YARN, "mscale": None, "mscale_all_dim": None}},
    "tied embeddings": {"tie_word_embeddings": True},
    "all layers mixed, other eps": {"first_k_dense_replace": 0, "rms_norm_eps": 1e-2},
}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_agree(tmp_path: Path, variant: str) -> None:
    from transformers import DeepseekV2Config, DeepseekV2ForCausalLM

    torch.manual_seed(7)
    reference = DeepseekV2ForCausalLM(DeepseekV2Config(**{**SMALL, **VARIANTS[variant]}))
    reference.save_pretrained(tmp_path, max_shard_size="60KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    prompt = [number * 7 % 60 for number in range(90)]
    with torch.inference_mode():
        expected = reference(torch.tensor([prompt])).logits[0, -1].double()
    solo = Solo(tmp_path)
    for logits in (solo.logits(prompt), solo.logits_token_by_token(prompt)):
        assert torch.allclose(logits[0], expected, atol=2e-5 * float(expected.std()))


def test_the_chunks_of_a_long_prompt_meet_without_a_seam() -> None:
    solo = Solo(default_checkpoint())
    prompt = [5 + number % 700 for number in range(600)]
    assert torch.allclose(solo.logits(prompt), solo.logits_token_by_token(prompt, first=250), atol=1e-9)
