"""What can be chosen of a context, and which choices are worth trying. Measures nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cbatch.config import ContextConfig
from cbatch.llama import machine
from cbatch.llama.model import Model
from cbatch.llama.resolve import resolve_context

SLOTS = 32
"""Of cbatch's own rules, and of the comparison with llama.cpp's."""
_PLAIN = (("bf16", "on"), ("bf16", "off"), ("f16", "on"), ("f16", "off"), ("f32", "on"))
_QUANTISED = (("q8_0", "on"), ("q8_0/bf16", "on"), ("q4_0", "on"))
_UBATCHES = (256, 512, 1024, 2048)


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to make a context, but for its size."""

    kv_type: str
    flash_attn: str
    kv_mode: str = "split"
    ubatch: int = 512
    threads: int | None = None
    """None: as many as cores."""

    def context(self, slots: int, cells: int, like: ContextConfig) -> ContextConfig:
        """Of `slots` sequences of `cells` cells; the rest as `like` has it."""
        return replace(
            like,
            max_num_seqs=slots,
            cells_per_seq=cells,
            max_num_batched_tokens=max(like.max_num_batched_tokens, self.ubatch),
            ubatch=self.ubatch,
            kv_mode=self.kv_mode,
            kv_type=self.kv_type,
            flash_attn=self.flash_attn,
            threads=self.threads,
        )

    @property
    def quantised(self) -> bool:
        """Whether KV has fewer bits than the usual 16, which changes outputs."""
        return any(name not in ("f32", "f16", "bf16") for name in self.kv_type.split("/"))


def built_in(model: Model) -> Setting:
    """What cbatch does where nothing was measured."""
    resolved = resolve_context(model, ContextConfig())
    types = dict.fromkeys((resolved.type_k, resolved.type_v))
    return Setting("/".join(types), resolved.flash_attn)


def of_llama_cpp(model: Model) -> Setting:
    """llama.cpp's defaults; on CPUs its flash attention `auto` is on."""
    return Setting("f16", "auto" if model.offloaded else "on")


def kernels(default: Setting, reference: Setting, *, allow_kv_quant: bool) -> list[Setting]:
    """Types of KV with and without flash attention, the two given ones first."""
    pairs = _PLAIN + (_QUANTISED if allow_kv_quant else ())
    found = [default, reference, *(replace(default, kv_type=kv, flash_attn=flash) for kv, flash in pairs)]
    return list(dict.fromkeys(found))


def variants(setting: Setting) -> Iterator[Setting]:
    """What differs in one other choice."""
    yield replace(setting, kv_mode="unified" if setting.kv_mode == "split" else "split")
    yield from (replace(setting, ubatch=ubatch) for ubatch in _UBATCHES if ubatch != setting.ubatch)
    usual = machine.default_threads()
    for threads in {usual, len(machine.allowed_cpus()) or usual}:
        if threads != (usual if setting.threads is None else setting.threads):
            yield replace(setting, threads=threads)


def describe(setting: Setting) -> str:
    """Such as `bf16, flash attention on, split KV, ubatch 512`."""
    threads = "" if setting.threads is None else f", {setting.threads} threads"
    flash = f"flash attention {setting.flash_attn}"
    return f"{setting.kv_type}, {flash}, {setting.kv_mode} KV, ubatch {setting.ubatch}{threads}"


def short_name(setting: Setting) -> str:
    """The same as `bf16 fa split 512`."""
    flash = {"on": "fa", "off": "no fa", "auto": "fa auto"}[setting.flash_attn]
    threads = "" if setting.threads is None else f" {setting.threads} threads"
    return f"{setting.kv_type} {flash} {setting.kv_mode} {setting.ubatch}{threads}"
