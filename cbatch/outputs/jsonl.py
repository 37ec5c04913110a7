"""Results in the OpenAI Batch output form, one JSON object a line.

Form: https://platform.openai.com/docs/api-reference/batch/request-output. Carried fields have no place in it; they
are added as `carried`, an object beside `response`, where a row has any, and so are `truncated_tokens` and
`dropped_tokens` where the context couldn't hold all of it; what a chat's prompt is scored with is added
to its `body` as `prompt_logprobs`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from cbatch.outputs import schema
from cbatch.outputs.arrow import batch
from cbatch.outputs.choices import choices, prompt_places
from cbatch.outputs.json_text import to_json
from cbatch.outputs.results import Result
from cbatch.types import RowRef


class JsonLines:
    """Renders results as lines. `is_chat` tells rows answered as a chat from raw completions; `token_bytes` is what a
    token prints.

    Half a surrogate pair, as Python gives it for a byte of a file name that isn't UTF-8, is written as JSON's escape.
    """

    def __init__(self, model: str, is_chat: Callable[[RowRef], bool], token_bytes: Callable[[int], bytes]) -> None:
        self._model = model
        self._is_chat = is_chat
        self._token_bytes = token_bytes

    def batch(self, results: Sequence[Result]) -> pa.RecordBatch:
        """Rows of the table `schema.LINES`."""
        refs = [result.ref for result in results]
        columns = [
            [ref.number for ref in refs],
            [ref.id for ref in refs],
            [result.finish_reason.value for result in results],
            [result.error_code for result in results],
            [self.line(result) for result in results],
        ]
        return batch(schema.LINES, columns)

    def line(self, result: Result) -> bytes:
        """A result's line, with its end."""
        return to_json(self._record(result)).encode("utf-8", "backslashreplace") + b"\n"

    def _record(self, result: Result) -> dict[str, Any]:
        row, failed = result.ref.number, result.error_code is not None
        line: dict[str, Any] = {
            "id": f"batch_req_{row}",
            "custom_id": result.ref.id,
            "response": None
            if failed
            else {"status_code": 200, "request_id": f"req_{row}", "body": self._body(result)},
            "error": {"code": result.error_code, "message": result.error} if failed else None,
        }
        if result.ref.carried:
            line["carried"] = dict(result.ref.carried)
        if result.output is not None:
            lost = {
                "truncated_tokens": result.output.request.truncated_tokens,
                "dropped_tokens": result.output.dropped_tokens,
            }
            line.update({name: tokens for name, tokens in lost.items() if tokens})
        return line

    def _body(self, result: Result) -> dict[str, Any]:
        assert result.output is not None
        chat = self._is_chat(result.ref)
        prompt = int(result.output.request.prompt.size)
        completed = sum(int(output.token_ids.size) for output in result.samples)
        body: dict[str, Any] = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{result.ref.number}",
            "object": "chat.completion" if chat else "text_completion",
            "created": int(time.time()),
            "model": self._model,
            "choices": choices(result.samples, self._token_bytes, chat=chat),
            "usage": {"prompt_tokens": prompt, "completion_tokens": completed, "total_tokens": prompt + completed},
        }
        if chat and result.output.prompt_logprobs is not None:
            body["prompt_logprobs"] = prompt_places(result.output, self._token_bytes)
        return body
