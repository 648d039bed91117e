"""What the scheduler refuses, as against what does not even parse: a refusal here is a request with a trace."""

from server_launch.reference.errors import ApiError
from server_launch.reference.request import Request


def refusal(request: Request, *, context_length: int) -> ApiError | None:
    """Why this request cannot be served; None if it can. `context_length` in tokens, prompt and answer together."""
    call = request.call
    wanted = len(request.prompt_ids) + request.max_tokens
    if call.temperature > 0:
        return _unsupported("temperature", "this server is greedy: temperature must be 0")
    if call.logprobs > 0:
        return _unsupported("logprobs", "logprobs are not supported")
    if call.adapter is not None:
        return _unsupported("lora_adapter", "LoRA adapters are not supported")
    if not request.prompt_ids:
        return ApiError(400, "the prompt is empty", param="prompt", code="empty_prompt")
    if wanted > context_length:
        text = f"the context holds {context_length} tokens; {len(request.prompt_ids)} of prompt and {request.max_tokens} new are {wanted}"
        return ApiError(400, text, param="max_tokens", code="context_length_exceeded")
    return None


def _unsupported(param: str, message: str) -> ApiError:
    return ApiError(400, message, param=param, code="unsupported_parameter")
