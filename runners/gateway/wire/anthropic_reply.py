"""The Anthropic Messages format, written: replies, whole and as server-sent events, and errors."""

from __future__ import annotations

import json
import sys
from typing import Any, Literal

from runners.gateway.asking import Answer
from runners.gateway.conversation import encodable


def stop_reason(answer: Answer) -> str:
    """`tool_use` whenever there are calls, even where the token limit came after them: clients drop the calls of a
    reply that ends in `max_tokens` (DeepSeek Harness 0.2.1 does)."""
    if answer.reply.calls:
        return "tool_use"
    return {"stop": "end_turn", "stop_string": "stop_sequence", "length": "max_tokens"}[answer.finish]


def content(answer: Answer, call_ids: tuple[str, ...]) -> list[dict[str, Any]]:
    """The reply's blocks, never none: a model that wrote nothing gives one empty text block."""
    reply = answer.reply
    blocks: list[dict[str, Any]] = []
    if reply.thinking:
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": ""})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    for identifier, call in zip(call_ids, reply.calls, strict=True):
        blocks.append({"type": "tool_use", "id": identifier, "name": call.name, "input": call.arguments})
    return blocks or [{"type": "text", "text": ""}]


def usage(input_tokens: int, output_tokens: int) -> dict[str, int]:
    """True counts. Nothing is reported as cached: what the engine reuses depends on what ran before."""
    return {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }


def message(identifier: str, model: str, answer: Answer, call_ids: tuple[str, ...]) -> dict[str, Any]:
    """The body of a reply that is not streamed."""
    return {
        "id": identifier,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content(answer, call_ids),
        "stop_reason": stop_reason(answer),
        "stop_sequence": answer.stop if stop_reason(answer) == "stop_sequence" else None,
        "usage": usage(answer.input_tokens, answer.output_tokens),
    }


def body(data: dict[str, Any]) -> bytes:
    """JSON in UTF-8, on one line.

    What a model can write in a call's arguments and no JSON in UTF-8 can hold: a lone surrogate, by its escape, becomes
    U+FFFD; a number that overflows, such as 1e400, becomes the largest one of its sign.
    """
    return encodable(_json(data)).encode()


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return max(-sys.float_info.max, min(sys.float_info.max, value))
    return value


def sse(data: dict[str, Any]) -> bytes:
    """One server-sent event; its name is the data's type."""
    return b"event: %s\ndata: %s\n\n" % (data["type"].encode(), body(data))


PING = b": ping\n\n"
"""A comment: keeps clients' idle watchdogs quiet and is no event."""


class MessageStream:
    """Writes one streamed reply. Text leaves in whole words, so that the bytes of a reply are the same whether it is
    being decoded or comes from the tape."""

    def __init__(self, identifier: str, model: str) -> None:
        self._identifier = identifier
        self._model = model
        self._index = -1
        self._open: str | None = None
        self._held = ""

    def start(self, input_tokens: int) -> bytes:
        body: dict[str, Any] = {
            "id": self._identifier,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage(input_tokens, 0),
        }
        return sse({"type": "message_start", "message": body})

    def delta(self, kind: Literal["text", "thinking"], text: str) -> bytes:
        """Events for a piece of text; may be none as long as a word is not complete."""
        out = b""
        if self._open != kind:
            out += self._close() + self._begin(kind)
        self._held += text
        cut = max(self._held.rfind(" "), self._held.rfind("\n")) + 1
        return out + self._words(cut)

    def finish(self, answer: Answer, call_ids: tuple[str, ...]) -> bytes:
        """The rest: what is held back, the calls, stop reason and usage."""
        out = self._close()
        for identifier, call in zip(call_ids, answer.reply.calls, strict=True):
            self._index += 1
            block = {"type": "tool_use", "id": identifier, "name": call.name, "input": {}}
            partial = _json(call.arguments)
            out += sse({"type": "content_block_start", "index": self._index, "content_block": block})
            piece = {"type": "input_json_delta", "partial_json": partial}
            out += sse({"type": "content_block_delta", "index": self._index, "delta": piece})
            out += sse({"type": "content_block_stop", "index": self._index})
        if self._index < 0:
            out += self._begin("text") + self._close()
        reason = stop_reason(answer)
        delta = {"stop_reason": reason, "stop_sequence": answer.stop if reason == "stop_sequence" else None}
        counts = usage(answer.input_tokens, answer.output_tokens)
        return out + sse({"type": "message_delta", "delta": delta, "usage": counts}) + sse({"type": "message_stop"})

    def _begin(self, kind: str) -> bytes:
        self._index += 1
        self._open = kind
        block = {"type": kind, kind: ""}
        if kind == "thinking":
            block["signature"] = ""
        return sse({"type": "content_block_start", "index": self._index, "content_block": block})

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        out = self._words(len(self._held)) + sse({"type": "content_block_stop", "index": self._index})
        self._open = None
        return out

    def _words(self, end: int) -> bytes:
        """Sends what is held up to `end`, one event a word."""
        ready, self._held = self._held[:end], self._held[end:]
        out = b""
        word = ""
        for at, character in enumerate(ready):
            word += character
            if character in " \n" or at == len(ready) - 1:
                piece = {"type": f"{self._open}_delta", str(self._open): word}
                out += sse({"type": "content_block_delta", "index": self._index, "delta": piece})
                word = ""
        return out


def error(kind: str, text: str) -> dict[str, Any]:
    """The body of an error answer, and the data of an `error` event."""
    return {"type": "error", "error": {"type": kind, "message": text}}


def overflow_text(input_tokens: int, window: int) -> str:
    """What makes DeepSeek Harness compact: it looks for words like these in the message, and not for a status."""
    return f"prompt is too long for this model's context window: {input_tokens} tokens > {window - 1} maximum"
