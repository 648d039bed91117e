"""Text to token ids and back with the files of a checkpoint directory, without the start-up time of a whole model library."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer as FileTokenizer

from server_launch.reference.config import CheckpointError


class CheckpointTokenizer:
    """The Tokenizer seam over tokenizer.json, with the chat template of tokenizer_config.json."""

    def __init__(self, directory: Path) -> None:
        """Raises CheckpointError where the files are missing or unreadable."""
        path = directory / "tokenizer.json"
        try:
            self._tokenizer = FileTokenizer.from_buffer(path.read_bytes())
            self._settings: dict[str, Any] = json.loads((directory / "tokenizer_config.json").read_bytes())
        except (OSError, ValueError) as error:
            raise CheckpointError(f"cannot read the tokenizer in {directory}: {error}") from error
        self._template = self._chat_template(directory)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens; empty for an empty text."""
        # Half a surrogate pair is legal in JSON and in str, but it is not text.
        whole = text.encode(errors="replace").decode()
        return list(self._tokenizer.encode(whole, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids, special tokens included."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def render_chat(self, messages: Sequence[tuple[str, str]]) -> str:
        """The prompt text of (role, content) messages, ending where the assistant speaks.

        Raises ValueError where the checkpoint has no chat template or the template refuses the messages.
        """
        if self._template is None:
            raise ValueError("this checkpoint has no chat template")
        turns = [{"role": role, "content": content} for role, content in messages]
        names = {name: _text(self._settings.get(name)) for name in ("bos_token", "eos_token", "unk_token", "pad_token")}
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals.update(raise_exception=_refuse, strftime_now=datetime.now(UTC).strftime)
        try:
            return environment.from_string(self._template).render(messages=turns, add_generation_prompt=True, **names)
        except TemplateError as error:
            raise ValueError(f"the chat template refuses these messages: {error}") from error

    def _chat_template(self, directory: Path) -> str | None:
        separate = directory / "chat_template.jinja"
        if separate.exists():
            return separate.read_text(encoding="utf-8")
        template = self._settings.get("chat_template")
        return template if isinstance(template, str) else None


def _text(token: str | dict[str, Any] | None) -> str:
    """A special token as settings spell it: the text itself, or an object around it."""
    return str(token["content"]) if isinstance(token, dict) else token or ""


def _refuse(reason: str) -> None:
    raise TemplateError(reason)
