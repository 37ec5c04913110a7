"""How tokens are chosen: the parameters and their bounds. Knows no logits."""

from __future__ import annotations

from dataclasses import dataclass

from cbatch.errors import ParameterError

MAX_SAMPLES = 128
MAX_LOGPROBS = 20
"""At each place, as in OpenAI's chat completions."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one request's tokens are chosen. Raises `ParameterError` for a value out of range.

    Order of application, as in llama.cpp: logit_bias, penalties, top_k, typical_p, top_p, min_p, temperature.
    """

    max_tokens: int = 256
    """Upper bound on output tokens, >= 1."""
    temperature: float = 0.0
    """0 is greedy."""
    top_k: int = 0
    """Keep the k most likely tokens; 0 keeps all."""
    top_p: float = 1.0
    """Nucleus sampling (Holtzman et al. 2019), in (0, 1]; 1 keeps all."""
    min_p: float = 0.0
    """Keep tokens at least min_p times as likely as the likeliest (Nguyen et al. 2024), in [0, 1]; 0 keeps all."""
    typical_p: float = 1.0
    """Locally typical sampling (Meister et al. 2022), in (0, 1]; 1 keeps all."""
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens seen in prompt or output (Keskar et al. 2019), > 0."""
    presence_penalty: float = 0.0
    """Subtracted from the logit of each token seen in the output, in [-2, 2]."""
    frequency_penalty: float = 0.0
    """Subtracted from a token's logit once per occurrence in the output, in [-2, 2]."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """(token id, bias) pairs, bias in [-100, 100], added to the logit."""
    seed: int | None = None
    """Of the request's random stream, in [0, 2**63); None derives one from the run's seed and the row id."""
    stop: tuple[str, ...] = ()
    """Output ends before the first of these strings, which is not emitted."""
    stop_token_ids: tuple[int, ...] = ()
    """Output ends when one of these is sampled; it is not part of the text."""
    ignore_eos: bool = False
    """Go on past the model's end-of-generation tokens until max_tokens."""
    n: int = 1
    """Samples to give back, 1 to 128. Each has a random stream of its own; at temperature 0 they are all the same."""
    best_of: int | None = None
    """Samples to make, `n` to 128; the n with the highest mean log-probability are given back. None makes n."""
    logprobs: int | None = None
    """Log-probabilities of each output token and of the k likeliest at its place, 0 to 20; None computes none."""
    echo: bool = False
    """The output's text begins with the prompt's; with `logprobs`, those of the prompt's tokens are given too."""

    def __post_init__(self) -> None:
        _integer("max_tokens", self.max_tokens, 1, 2**31 - 1)
        _number("temperature", self.temperature, 0, 100)
        _integer("top_k", self.top_k, 0, 2**31 - 1)
        _number("top_p", self.top_p, 0, 1, open_low=True)
        _number("min_p", self.min_p, 0, 1)
        _number("typical_p", self.typical_p, 0, 1, open_low=True)
        _number("repetition_penalty", self.repetition_penalty, 0, 100, open_low=True)
        _number("presence_penalty", self.presence_penalty, -2, 2)
        _number("frequency_penalty", self.frequency_penalty, -2, 2)
        for token, bias in self.logit_bias:
            _integer("logit_bias token id", token, 0, 2**31 - 1)
            _number(f"logit_bias of token {token}", bias, -100, 100)
        if self.seed is not None:
            _integer("seed", self.seed, 0, 2**63 - 1)
        for stop in self.stop:
            if not isinstance(stop, str) or not stop:
                raise ParameterError(f"stop holds {stop!r}: give non-empty strings")
        for token in self.stop_token_ids:
            _integer("stop_token_ids", token, 0, 2**31 - 1)
        _integer("n", self.n, 1, MAX_SAMPLES)
        if self.best_of is not None:
            _integer("best_of", self.best_of, 1, MAX_SAMPLES)
            if self.best_of < self.n:
                raise ParameterError(f"best_of is {self.best_of}, below n, which is {self.n}: give at least n")
        if self.logprobs is not None:
            _integer("logprobs", self.logprobs, 0, MAX_LOGPROBS)
        for name, flag in (("ignore_eos", self.ignore_eos), ("echo", self.echo)):
            if not isinstance(flag, bool):
                raise ParameterError(f"{name} is {flag!r}: give true or false")

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature == 0 or self.top_k == 1

    @property
    def num_samples(self) -> int:
        """Samples to make of the prompt."""
        return self.n if self.best_of is None else self.best_of

    @property
    def logprobs_needed(self) -> int | None:
        """As `logprobs`, but 0 where choosing the best samples takes what isn't asked for."""
        if self.logprobs is None and self.num_samples > self.n:
            return 0
        return self.logprobs


def _integer(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ParameterError(f"{name} is {value!r}: give a whole number")
    if not low <= value <= high:
        raise ParameterError(f"{name} is {value}: give a whole number from {low} to {high}")


def _number(name: str, value: object, low: float, high: float, *, open_low: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise ParameterError(f"{name} is {value!r}: give a number")
    if not low <= value <= high or (open_low and value == low):
        bounds = f"above {low} and up to {high}" if open_low else f"from {low} to {high}"
        raise ParameterError(f"{name} is {str(value)[:24]}: give a number {bounds}")
