"""The settings that cbatch chose for a job, spelt as arguments of llama.cpp's own programs. Chooses nothing."""

from __future__ import annotations

from dataclasses import dataclass

from cbatch.config import padded


@dataclass(frozen=True, slots=True)
class Flags:
    """Of a llama context."""

    slots: int
    type_k: str
    type_v: str
    flash_attn: str
    ubatch: int
    threads: int
    unified: bool

    def arguments(self) -> list[str]:
        """Without slots and context size. `-b` is the ubatch: longer calls of theirs are cut into thin slices."""
        common = f"-t {self.threads} -b {self.ubatch} -ub {self.ubatch} -fa {self.flash_attn}"
        types = f"-ctk {self.type_k} -ctv {self.type_v}"
        return [*common.split(), *types.split(), *(["-kvu"] if self.unified else [])]

    def __str__(self) -> str:
        types = self.type_k if self.type_k == self.type_v else f"{self.type_k}/{self.type_v}"
        return f"{types} KV, FA {self.flash_attn}, ubatch {self.ubatch}{', unified' if self.unified else ''}"


def total_cells(slots: int, cells: int) -> int:
    """Of a context in which every slot holds a request of that many cells, and one more that is never used."""
    return slots * padded(cells + 1)
