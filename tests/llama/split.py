"""A tiny model in several files, as llama.cpp's gguf-split writes it."""

from __future__ import annotations

from pathlib import Path

import gguf

from cbatch.llama.tiny import write_tiny


def write_split(stem: Path, *, parts: int, seed: int = 0) -> list[Path]:
    """Write `stem`-00001-of-0000N.gguf and so on: all metadata in the first, tensors dealt out in turn."""
    whole = write_tiny(stem.with_suffix(".whole"), seed=seed)
    reader = gguf.GGUFReader(whole)
    paths = []
    for part in range(parts):
        path = stem.with_name(f"{stem.name}-{part + 1:05d}-of-{parts:05d}.gguf")
        writer = gguf.GGUFWriter(path, "llama")
        if part == 0:
            _copy_metadata(reader, writer)
        writer.add_uint16("split.no", part)
        writer.add_uint16("split.count", parts)
        writer.add_int32("split.tensors.count", len(reader.tensors))
        for tensor in reader.tensors[part::parts]:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        paths.append(path)
    whole.unlink()
    return paths


def _copy_metadata(reader: gguf.GGUFReader, writer: gguf.GGUFWriter) -> None:
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            writer.add_key_value(
                key, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None
            )
