"""Whether prompts have as many prefix blocks as their lengths make. Knows no file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from cbatch.traces.findings import Finding
from cbatch.traces.formats.format import Format
from cbatch.traces.trace import TraceRequest


class Blocks:
    """Sees every request of a file once."""

    SIZES = tuple(2**n for n in range(13))
    """To look for a better size among."""

    def __init__(self, form: Format) -> None:
        self._column = form.hashes
        self._requests = self._fitting = 0
        self._fits: Counter[int] = Counter()
        """Requests that a block size fits."""
        self._sizes: Counter[int] = Counter()
        self._example = ""

    def see(self, where: str, request: TraceRequest) -> None:
        tokens, blocks, size = request.prompt_tokens, len(request.prefix_ids), request.prefix_block
        if self._column is None or not blocks or tokens is None or size is None:
            return
        self._requests += 1
        self._sizes[size] += 1
        if -(-tokens // size) == blocks:
            self._fitting += 1
        elif not self._example:
            self._example = f"{where} has {blocks:,} for {tokens:,} tokens"
        self._fits.update(other for other in self.SIZES if -(-tokens // other) == blocks)

    def findings(self) -> Iterator[Finding]:
        if not self._requests:
            return
        size = self._sizes.most_common(1)[0][0]
        if self._fitting == self._requests:
            message = (
                f"{self._column} holds {size}-token blocks: all {self._requests:,} prompts have as many as they need"
            )
            yield Finding("info", "block_size", message)
            return
        odd = self._requests - self._fitting
        found = (
            f"read as {size}-token blocks, {odd:,} of {self._requests:,} prompts have another number of {self._column}"
        )
        effect = "ids beyond the prompt are left out, and tokens beyond the ids are its own"
        yield Finding("warning", "block_mismatch", f"{found} ({self._example}): {effect}{self._better()}")

    def _better(self) -> str:
        size, fitting = max(self._fits.items(), key=lambda item: item[1], default=(0, 0))
        if fitting <= self._fitting:
            return ""
        return f"; blocks of {size} fit {fitting:,} prompts: give --block-size {size}"
