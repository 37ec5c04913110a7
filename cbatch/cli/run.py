"""`cbatch run`: the options of the main job. What they do is in `cbatch.cli.job`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from cbatch.cli.options import OutputFormat, RunOptions, Summary

_CHAT, _SAMPLING, _ENGINE, _OUTPUT = "Prompts", "Sampling (defaults; a row's own fields win)", "Engine", "Output"


def run(
    inputs: Annotated[
        list[str], typer.Argument(help="JSONL files or globs, or - for standard input.", metavar="INPUT")
    ],
    model: Annotated[
        str, Option("--model", "-m", help="A GGUF file, smollm2, or hf:OWNER/REPO/FILE.gguf.", rich_help_panel=_ENGINE)
    ] = "smollm2",
    output: Annotated[
        Path | None,
        Option("--output", "-o", help="Directory to write.", show_default="INPUT.cbatch", rich_help_panel=_OUTPUT),
    ] = None,
    output_format: Annotated[
        OutputFormat,
        Option(help="Results as Parquet, or as JSONL in the OpenAI Batch form.", rich_help_panel=_OUTPUT),
    ] = OutputFormat.parquet,
    force: Annotated[
        bool, Option("--force", help="Replace the results of an earlier run.", rich_help_panel=_OUTPUT)
    ] = False,
    summary: Annotated[
        Summary, Option(help="The summary at the end, for people or for programs.", rich_help_panel=_OUTPUT)
    ] = Summary.table,
    quiet: Annotated[
        bool, Option("--quiet", "-q", help="No dashboard and no progress lines.", rich_help_panel=_OUTPUT)
    ] = False,
    raw: Annotated[
        bool,
        Option("--raw", help="Plain prompts are completed as they are, without a template.", rich_help_panel=_CHAT),
    ] = False,
    system: Annotated[
        str | None, Option(help="System message for chats that have none.", rich_help_panel=_CHAT)
    ] = None,
    chat_template: Annotated[
        Path | None, Option(help="Jinja file to use instead of the model's own template.", rich_help_panel=_CHAT)
    ] = None,
    template_kwargs: Annotated[
        str | None, Option(help="JSON object of variables for the template.", rich_help_panel=_CHAT)
    ] = None,
    parse_special: Annotated[
        bool, Option("--parse-special", help="Let text in rows write control tokens.", rich_help_panel=_CHAT)
    ] = False,
    max_tokens: Annotated[int, Option(help="Most output tokens a row.", rich_help_panel=_SAMPLING)] = 256,
    temperature: Annotated[float, Option(help="0 is greedy.", rich_help_panel=_SAMPLING)] = 0.0,
    top_k: Annotated[int, Option(help="0 keeps all.", rich_help_panel=_SAMPLING)] = 0,
    top_p: Annotated[float, Option(rich_help_panel=_SAMPLING)] = 1.0,
    min_p: Annotated[float, Option(rich_help_panel=_SAMPLING)] = 0.0,
    typical_p: Annotated[float, Option(rich_help_panel=_SAMPLING)] = 1.0,
    repetition_penalty: Annotated[
        float, Option(help="Over prompt and output; 1 is off.", rich_help_panel=_SAMPLING)
    ] = 1.0,
    presence_penalty: Annotated[float, Option(help="Over the output.", rich_help_panel=_SAMPLING)] = 0.0,
    frequency_penalty: Annotated[float, Option(help="Over the output.", rich_help_panel=_SAMPLING)] = 0.0,
    logit_bias: Annotated[
        list[str] | None, Option(metavar="TOKEN_ID:BIAS", help="May be repeated.", rich_help_panel=_SAMPLING)
    ] = None,
    seed: Annotated[
        int, Option(min=0, help="Of the run: each row's stream derives from it and its id.", rich_help_panel=_SAMPLING)
    ] = 0,
    stop: Annotated[
        list[str] | None, Option(help="String to end before; may be repeated.", rich_help_panel=_SAMPLING)
    ] = None,
    stop_token_id: Annotated[
        list[int] | None, Option(help="Token to end at; may be repeated.", rich_help_panel=_SAMPLING)
    ] = None,
    ignore_eos: Annotated[
        bool, Option("--ignore-eos", help="Go on to max-tokens past the end token.", rich_help_panel=_SAMPLING)
    ] = False,
    max_num_seqs: Annotated[int, Option(help="Rows that run at once (slots).", rich_help_panel=_ENGINE)] = 32,
    max_num_batched_tokens: Annotated[
        int, Option(help="Most tokens computed in a step.", rich_help_panel=_ENGINE)
    ] = 2048,
    prefill_chunk: Annotated[
        int | None, Option(help="Most prompt tokens of a row in a step.", rich_help_panel=_ENGINE)
    ] = None,
    ctx: Annotated[
        int | None,
        Option(help="KV cells a row, prompt and output.", show_default="what the rows need", rich_help_panel=_ENGINE),
    ] = None,
    kv: Annotated[str, Option(help="split, unified or auto.", rich_help_panel=_ENGINE)] = "auto",
    kv_type: Annotated[
        str | None,
        Option(
            help="KV type, or K/V types such as q8_0/bf16.", show_default="bf16; f16 on a GPU", rich_help_panel=_ENGINE
        ),
    ] = None,
    flash_attn: Annotated[
        str | None, Option(help="on, off or auto.", show_default="on; auto on a GPU", rich_help_panel=_ENGINE)
    ] = None,
    threads: Annotated[
        int | None,
        Option("--threads", "-t", help="Compute threads.", show_default="physical cores", rich_help_panel=_ENGINE),
    ] = None,
    cpu_mask: Annotated[
        str,
        Option(
            metavar="LIST",
            help="CPUs to bind threads to, such as 0-3,8; auto binds where every CPU has a thread; none.",
            rich_help_panel=_ENGINE,
        ),
    ] = "auto",
    priority: Annotated[
        str, Option(help="Of the compute threads: low, normal, medium, high, realtime.", rich_help_panel=_ENGINE)
    ] = "normal",
    ubatch: Annotated[int, Option(help="Tokens the kernels take at once.", rich_help_panel=_ENGINE)] = 512,
    gpu_layers: Annotated[int, Option(help="Layers on the GPU; -1 is all.", rich_help_panel=_ENGINE)] = -1,
    main_gpu: Annotated[int, Option(rich_help_panel=_ENGINE)] = 0,
    tensor_split: Annotated[str | None, Option(help="Share of each GPU, such as 3,1.", rich_help_panel=_ENGINE)] = None,
    lora: Annotated[
        list[str] | None, Option(metavar="PATH[:SCALE]", help="Adapter; may be repeated.", rich_help_panel=_ENGINE)
    ] = None,
) -> None:
    """Answer every row of the inputs.

    Exit codes: 0 all rows fine, 3 some rows failed, 1 the run failed, 2 a mistake in the call, 130 interrupted.
    """
    options = RunOptions(**locals())
    from cbatch.cli.job import run_job  # loads the native library: not for --help

    raise typer.Exit(run_job(options))
