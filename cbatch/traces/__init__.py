"""Request traces: cbatch's own format, importers, arrival processes, synthesis, lint. Knows no engine and no model."""
