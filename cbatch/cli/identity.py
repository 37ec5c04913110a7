"""What makes a job the same job: its inputs, its model, and every option that may change an answer.

Slots, threads and batch sizes aren't among them: they may move a logit by a rounding error, as the company that a row
finds in its batch does, and a job that ran out of memory must be able to go on with fewer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cbatch.cli.record import json_ready
from cbatch.cli.run_options import RunOptions
from cbatch.errors import OutputError, UsageError
from cbatch.inputs import identity as inputs_identity
from cbatch.llama.fingerprint import fingerprint

Identity = Mapping[str, Any]

_MOST_HEAD = 1 << 20
"""Bytes of stdin that count."""
_OPTIONS = (
    "raw",
    "system",
    "template_kwargs",
    "parse_special",
    "on_overflow",
    "keep",
    "ctx",
    "kv_type",
    "flash_attn",
)
"""Beside the sampling parameters, and those of the inputs. `ctx` bounds the output of long rows."""


def identity_of(options: RunOptions, model: Path) -> dict[str, Any]:
    """As JSON gives it back. Raises `InputError` or `UsageError` where a file can't be read."""
    rows = asdict(options.input_options())
    own = {name: getattr(options, name) for name in _OPTIONS}
    loras = options.model_config(model, use_extra_bufts=True).loras
    found = {
        "inputs": inputs_identity(options.inputs, form=options.input_format),
        "model": fingerprint(model),
        "loras": [[_fingerprint(path), scale] for path, scale in loras],
        "chat_template": None if options.chat_template is None else _fingerprint(options.chat_template),
        "output_format": options.results_format.value,
        "options": json_ready(rows | asdict(options.sampling()) | own),
    }
    again: dict[str, Any] = json.loads(json.dumps(found))
    return again


def check_stdin(identity: Identity, earlier: Identity, head: Callable[[int], bytes] | None) -> None:
    """See that stdin begins as that of an earlier run did, and put that beginning into the identity.

    `head` gives as many of its first bytes as it is asked for, waiting for them; None where nobody keeps them.
    Raises `OutputError` where it begins differently, or where nobody can tell.
    """
    for entry, before in zip(identity["inputs"], earlier["inputs"], strict=True):
        if not _is_stdin(entry):
            continue
        if head is None or "head_bytes" not in before:
            raise OutputError(
                "stdin can be read only once, so nobody knows whether it is the same as before: give another --output, "
                "or --force to start over (what is there is kept)"
            )
        entry.update(inputs_identity(["-"], head(before["head_bytes"]))[0])
        if entry["fingerprint"] != before["fingerprint"]:
            raise OutputError(
                f"stdin begins differently: its first {before['head_bytes']:,} bytes were others. Give the same again, "
                "another --output, or --force to start over (what is there is kept)"
            )


def note_stdin(identity: Identity, head: Callable[[int], bytes] | None, read: int) -> None:
    """Put as much of stdin's beginning into the identity as has been `read`, in bytes, or as counts at most.

    Before any was read it can't be there. `head` is that of `check_stdin`.
    """
    size = min(read, _MOST_HEAD)
    for entry in identity["inputs"]:
        if _is_stdin(entry) and head is not None and size >= entry.get("head_bytes", 0):
            entry.update(inputs_identity(["-"], head(size))[0])


def _fingerprint(path: Path) -> str:
    try:
        return fingerprint(path)
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror or error}") from error


def differences(earlier: Identity, now: Identity) -> list[str]:
    """What the two differ in, one phrase each: `--temperature was 0.0 and is 0.8`."""
    return [
        *_inputs(earlier.get("inputs", []), now["inputs"]),
        *(f"{noun} is another one" for name, noun in _FILES.items() if earlier.get(name) != now[name]),
        *_changed({"output_format": earlier.get("output_format")}, {"output_format": now["output_format"]}),
        *_changed(earlier.get("options", {}), now["options"]),
    ]


_FILES = {"model": "the model", "loras": "--lora", "chat_template": "--chat-template"}


def _changed(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name, value in now.items():
        if earlier.get(name) != value:
            yield f"--{name.replace('_', '-')} was {_show(earlier.get(name))} and is {_show(value)}"


def _inputs(earlier: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(earlier) != len(now):
        yield f"there were {len(earlier)} input files and are {len(now)}"
        return
    for old, new in zip(earlier, now, strict=True):
        if _is_stdin(old) and _is_stdin(new):
            continue  # told apart by its first bytes, once they are there
        known = None not in (old.get("fingerprint"), new.get("fingerprint"))
        if known and old["fingerprint"] == new["fingerprint"]:
            continue  # wherever it lies, and whatever it is called
        if old["name"] != new["name"]:
            yield f"an input was {old['name']} and is {new['name']}"
        elif None not in (old.get("size"), new.get("size")) and old["size"] != new["size"]:
            yield f"{new['name']} had {old['size']:,} bytes and has {new['size']:,}"
        elif known:
            yield f"{new['name']} has other content"
        else:
            yield f"{new['name']} can be read only once, so nobody knows whether it is the same"


def _is_stdin(entry: Mapping[str, Any]) -> bool:
    return entry["name"] == "stdin" and "size" not in entry


def _show(value: Any) -> str:
    return "not given" if value is None else repr(value)
