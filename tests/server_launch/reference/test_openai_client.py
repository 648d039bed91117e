"""The official Python client against the server: it must need no special treatment."""

from collections.abc import Iterator

import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from tests.server_launch.reference.server import MODEL, Server, eventually


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0, timeout=20) as made:
        yield made


def test_a_completion_streamed_and_whole(client: openai.OpenAI) -> None:
    whole = client.completions.create(model=MODEL, prompt="hello", max_tokens=5, temperature=0)
    parts = list(client.completions.create(model=MODEL, prompt="hello", max_tokens=5, stream=True, stream_options={"include_usage": True}))
    assert whole.choices[0].finish_reason == "length"
    assert "".join(part.choices[0].text for part in parts if part.choices) == whole.choices[0].text
    assert parts[-1].usage == whole.usage
    assert len({part.id for part in parts}) == 1


def test_a_chat_streamed_and_whole(client: openai.OpenAI) -> None:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    whole = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=5)  # type: ignore[arg-type]
    stream = client.chat.completions.create(model=MODEL, messages=messages, max_completion_tokens=5, stream=True)  # type: ignore[arg-type]
    assert isinstance(stream, openai.Stream)
    parts: list[ChatCompletionChunk] = list(stream)
    assert "".join(part.choices[0].delta.content or "" for part in parts) == whole.choices[0].message.content
    assert whole.usage is not None and whole.usage.completion_tokens == 5


def test_errors_are_the_clients_own(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model=MODEL, prompt="hello", temperature=1)
    assert refused.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="other", prompt="hello")


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]


def test_closing_a_stream_cancels_the_request(client: openai.OpenAI, server: Server) -> None:
    stream = client.completions.create(model=MODEL, prompt="endless", max_tokens=3000, stream=True, extra_body={"request_id": "closed"})
    next(iter(stream))
    stream.close()
    assert server.trace("closed")["terminal_reason"] == "cancelled"
    eventually(server.at_rest, "rest")
