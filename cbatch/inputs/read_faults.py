"""The codes of rows that end before they hold an id."""

from __future__ import annotations

READ_FAULTS = frozenset(
    {
        "ambiguous_prompt",
        "duplicate_id",
        "empty_prompt",
        "invalid_csv",
        "invalid_id",
        "invalid_json",
        "invalid_parameter",
        "invalid_utf8",
        "invalid_value",
        "line_too_long",
        "missing_id",
        "missing_prompt",
        "template_failed",
        "unsupported_content",
        "unsupported_method",
        "unsupported_parameter",
        "unsupported_url",
        "where_failed",
        "wrong_type",
    }
)
"""Codes of all faults of `read_rows`."""
