"""Can tokens be dropped from the middle of a sequence, the later ones taking their positions?

llama.cpp rotates the keys of a whole cache for that, at the next decode. `llama_memory_can_shift` says where that
can't be at all; where it would end the process, or spoil the keys of other sequences, nothing says.
"""

from __future__ import annotations

from cbatch.llama.context import Context
from cbatch.llama.lib import C
from cbatch.llama.model import Model


def shift_obstacle(context: Context) -> str | None:
    """Why sequences of the context can't be shifted; None where they can.

    Recurrent layers have no positions to change. Their state goes on, and what was dropped stays in it.
    """
    model = context.model
    if model.memory.window:
        # the library allows it where the caches of both sorts of layers happen to be of one size, at small contexts
        return f"it looks through sliding windows of {model.memory.window} tokens, whose older cells are gone"
    if not C.llama_memory_can_shift(context.memory):
        return "llama.cpp can't move the positions of such a model"
    if C.llama_model_rope_type(model.handle) == C.LLAMA_ROPE_TYPE_NONE:
        return None
    if context.resolved.type_k == "bf16":
        return "llama.cpp can't rotate keys in bf16, and ends the process: give --kv-type f16/bf16"
    if _scales_keys(model):
        return "llama.cpp would scale the keys of all rows again at each shift, for it has a YaRN or attention factor"
    return None


def _scales_keys(model: Model) -> bool:
    """Whether rotating a key, even by nothing, changes its length (ggml's rope_yarn: `mscale`)."""
    metadata, prefix = model.metadata, f"{model.metadata.get('general.architecture')}.rope.scaling"
    if metadata.get(f"{prefix}.type") == "yarn" or float(metadata.get(f"{prefix}.yarn_ext_factor", 0)) > 0:
        return True
    return any(float(metadata.get(f"{prefix}.{name}", 1)) != 1 for name in ("attn_factor", "yarn_attn_factor"))
