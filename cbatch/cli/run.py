"""`cbatch run`: the options of the main job. What they do is in `cbatch.cli.job`."""

from __future__ import annotations

import typer

from cbatch.cli import arguments as args
from cbatch.cli import run_arguments as own
from cbatch.cli.given import given_options
from cbatch.cli.options import OutputFormat, Summary
from cbatch.cli.run_options import RunOptions
from cbatch.cli.start import start


def run(
    context: typer.Context,
    inputs: own.Inputs,
    input_format: own.Format = "auto",
    prompt_column: own.PromptColumn = None,
    id_column: own.IdColumn = None,
    messages_column: own.MessagesColumn = None,
    template: own.Template = None,
    where: own.Where = None,
    sample: own.Sample = None,
    offset: own.Offset = 0,
    limit: own.Limit = None,
    dry_run: own.DryRun = False,
    retry_failed: own.RetryFailed = False,
    supervise: own.Supervise = True,
    stall_timeout: own.StallTimeout = 300.0,
    memory_check: own.MemoryCheck = True,
    model: args.Model = "smollm2",
    output: own.Output = None,
    output_format: args.ResultsFormat = OutputFormat.parquet,
    order: own.Order = "input",
    force: own.Force = False,
    summary: args.SummaryForm = Summary.table,
    quiet: args.Quiet = False,
    raw: args.Raw = False,
    system: args.System = None,
    chat_template: args.ChatTemplate = None,
    template_kwargs: args.TemplateKwargs = None,
    parse_special: args.ParseSpecial = False,
    max_tokens: args.MaxTokens = 256,
    temperature: args.Temperature = 0.0,
    top_k: args.TopK = 0,
    top_p: args.TopP = 1.0,
    min_p: args.MinP = 0.0,
    typical_p: args.TypicalP = 1.0,
    repetition_penalty: args.RepetitionPenalty = 1.0,
    presence_penalty: args.PresencePenalty = 0.0,
    frequency_penalty: args.FrequencyPenalty = 0.0,
    logit_bias: args.LogitBias = None,
    seed: args.Seed = 0,
    stop: args.Stop = None,
    stop_token_id: args.StopTokenId = None,
    ignore_eos: args.IgnoreEos = False,
    auto: own.Auto = True,
    max_num_seqs: args.MaxNumSeqs = 32,
    max_num_batched_tokens: args.MaxNumBatchedTokens = 2048,
    prefill_chunk: args.PrefillChunk = None,
    prefix_cache: args.PrefixCache = "auto",
    no_prefix_cache: args.NoPrefixCache = False,
    preempt: args.Preempt = "swap",
    kv_overcommit: args.KvOvercommit = False,
    kv_cells: args.KvCells = None,
    ageing: args.Ageing = 300.0,
    compact: args.Compact = True,
    ctx: args.Ctx = None,
    on_overflow: args.OnOverflow = "error",
    keep: args.Keep = None,
    kv: args.Kv = "auto",
    kv_type: args.KvType = None,
    flash_attn: args.FlashAttn = None,
    threads: args.Threads = None,
    cpu_mask: args.CpuMask = "auto",
    priority: args.Priority = "normal",
    ubatch: args.Ubatch = 512,
    gpu_layers: args.GpuLayers = -1,
    main_gpu: args.MainGpu = None,
    tensor_split: args.TensorSplit = None,
    lora: args.Lora = None,
) -> None:
    """Answer every row of the inputs. The same command again resumes what was broken off.

    Exit codes: 0 all rows fine, 3 some rows failed, 1 the run failed, 2 a mistake in the call, 130 interrupted.
    """
    given = {name: value for name, value in locals().items() if name != "context"}
    options = RunOptions(**given, given=given_options(context))
    raise typer.Exit(start(options))
