"""The options that `run` and `replay` share: names, types and help. What they do is told by `options`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from cbatch.cli.options import OutputFormat, Summary

CHAT, SAMPLING, ENGINE, OUTPUT = "Prompts", "Sampling (defaults; a row's own fields win)", "Engine", "Output"

Model = Annotated[
    str, Option("--model", "-m", help="A GGUF file, smollm2, or hf:OWNER/REPO/FILE.gguf.", rich_help_panel=ENGINE)
]
ResultsFormat = Annotated[
    OutputFormat,
    Option(help="Results as Parquet, as CSV, or as JSONL in the OpenAI Batch form.", rich_help_panel=OUTPUT),
]
Force = Annotated[bool, Option("--force", help="Replace the results of an earlier run.", rich_help_panel=OUTPUT)]
SummaryForm = Annotated[
    Summary, Option(help="The summary at the end, for people or for programs.", rich_help_panel=OUTPUT)
]
Quiet = Annotated[bool, Option("--quiet", "-q", help="No dashboard and no progress lines.", rich_help_panel=OUTPUT)]
Raw = Annotated[
    bool,
    Option("--raw", help="Plain prompts are completed as they are, without a template.", rich_help_panel=CHAT),
]
System = Annotated[str | None, Option(help="System message for chats that have none.", rich_help_panel=CHAT)]
ChatTemplate = Annotated[
    Path | None, Option(help="Jinja file to use instead of the model's own template.", rich_help_panel=CHAT)
]
TemplateKwargs = Annotated[str | None, Option(help="JSON object of variables for the template.", rich_help_panel=CHAT)]
ParseSpecial = Annotated[
    bool, Option("--parse-special", help="Let text in rows write control tokens.", rich_help_panel=CHAT)
]
MaxTokens = Annotated[int, Option(help="Most output tokens a row.", rich_help_panel=SAMPLING)]
Temperature = Annotated[float, Option(help="0 is greedy.", rich_help_panel=SAMPLING)]
TopK = Annotated[int, Option(help="0 keeps all.", rich_help_panel=SAMPLING)]
TopP = Annotated[float, Option(rich_help_panel=SAMPLING)]
MinP = Annotated[float, Option(rich_help_panel=SAMPLING)]
TypicalP = Annotated[float, Option(rich_help_panel=SAMPLING)]
RepetitionPenalty = Annotated[float, Option(help="Over prompt and output; 1 is off.", rich_help_panel=SAMPLING)]
PresencePenalty = Annotated[float, Option(help="Over the output.", rich_help_panel=SAMPLING)]
FrequencyPenalty = Annotated[float, Option(help="Over the output.", rich_help_panel=SAMPLING)]
LogitBias = Annotated[
    list[str] | None, Option(metavar="TOKEN_ID:BIAS", help="May be repeated.", rich_help_panel=SAMPLING)
]
Seed = Annotated[
    int, Option(min=0, help="Of the run: each row's stream derives from it and its id.", rich_help_panel=SAMPLING)
]
Stop = Annotated[list[str] | None, Option(help="String to end before; may be repeated.", rich_help_panel=SAMPLING)]
StopTokenId = Annotated[list[int] | None, Option(help="Token to end at; may be repeated.", rich_help_panel=SAMPLING)]
IgnoreEos = Annotated[
    bool, Option("--ignore-eos", help="Go on to max-tokens past the end token.", rich_help_panel=SAMPLING)
]
Batching = Annotated[
    str,
    Option(
        help="continuous: slots are refilled at once. static: a group runs until its slowest ends. "
        "padded: static, and ended rows are computed on.",
        rich_help_panel=ENGINE,
    ),
]
StaticWait = Annotated[
    float, Option(metavar="MS", help="How long a static group waits to be full.", rich_help_panel=ENGINE)
]
PrefixCache = Annotated[
    str,
    Option(
        metavar="SIZE",
        help="Memory for beginnings that prompts share, computed once: such as 2GiB; auto is that or a quarter of "
        "what is free.",
        rich_help_panel=ENGINE,
    ),
]
NoPrefixCache = Annotated[bool, Option("--no-prefix-cache", help="Compute every prompt whole.", rich_help_panel=ENGINE)]
Preempt = Annotated[
    str,
    Option(
        help="swap or recompute: what becomes of the KV of rows that give way to those of higher priority; "
        "off: none does.",
        rich_help_panel=ENGINE,
    ),
]
KvOvercommit = Annotated[
    bool,
    Option(
        "--kv-overcommit",
        help="With --kv unified, let rows in before there is room for all of their output; some give way if need be.",
        rich_help_panel=ENGINE,
    ),
]
KvCells = Annotated[
    int | None,
    Option(help="With --kv unified: cells of the pool.", show_default="what the rows need", rich_help_panel=ENGINE),
]
Ageing = Annotated[
    float, Option(metavar="S", help="Waiting so long makes up for one step of priority.", rich_help_panel=ENGINE)
]
Compact = Annotated[
    bool,
    Option("--compact/--no-compact", help="Close gaps between slots at the end of a job.", rich_help_panel=ENGINE),
]
OnOverflow = Annotated[
    str,
    Option(
        help="Of rows that pass the context. error: a prompt that is too long fails, an output is cut. "
        "truncate-left, truncate-middle: tokens of the prompt go too, so that its output, or half of the context, has "
        "room. shift: an output goes on, and what is older is dropped.",
        rich_help_panel=ENGINE,
    ),
]
Keep = Annotated[
    int | None,
    Option(
        metavar="N",
        help="First tokens of a prompt that stay when others go.",
        show_default="its BOS",
        rich_help_panel=ENGINE,
    ),
]
MaxNumSeqs = Annotated[int, Option(help="Rows that run at once (slots).", rich_help_panel=ENGINE)]
MaxNumBatchedTokens = Annotated[int, Option(help="Most tokens computed in a step.", rich_help_panel=ENGINE)]
PrefillChunk = Annotated[int | None, Option(help="Most prompt tokens of a row in a step.", rich_help_panel=ENGINE)]
Ctx = Annotated[
    int | None,
    Option(help="KV cells a row, prompt and output.", show_default="what the rows need", rich_help_panel=ENGINE),
]
Kv = Annotated[str, Option(help="split, unified or auto.", rich_help_panel=ENGINE)]
KvType = Annotated[
    str | None,
    Option(help="KV type, or K/V types such as q8_0/bf16.", show_default="bf16; f16 on a GPU", rich_help_panel=ENGINE),
]
FlashAttn = Annotated[
    str | None, Option(help="on, off or auto.", show_default="on; auto on a GPU", rich_help_panel=ENGINE)
]
Threads = Annotated[
    int | None,
    Option("--threads", "-t", help="Compute threads.", show_default="physical cores", rich_help_panel=ENGINE),
]
CpuMask = Annotated[
    str,
    Option(
        metavar="LIST",
        help="CPUs to bind threads to, such as 0-3,8; auto binds where every CPU has a thread; none.",
        rich_help_panel=ENGINE,
    ),
]
Priority = Annotated[
    str, Option(help="Of the compute threads: low, normal, medium, high, realtime.", rich_help_panel=ENGINE)
]
Ubatch = Annotated[int, Option(help="Tokens the kernels take at once.", rich_help_panel=ENGINE)]
GpuLayers = Annotated[int, Option(help="Layers on the GPU; -1 is all.", rich_help_panel=ENGINE)]
MainGpu = Annotated[
    int | None,
    Option(min=0, help="The one GPU to use, by its number.", show_default="all GPUs", rich_help_panel=ENGINE),
]
TensorSplit = Annotated[str | None, Option(help="Share of each GPU, such as 3,1.", rich_help_panel=ENGINE)]
Lora = Annotated[
    list[str] | None, Option(metavar="PATH[:SCALE]", help="Adapter; may be repeated.", rich_help_panel=ENGINE)
]
