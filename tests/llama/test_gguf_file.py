from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cbatch.errors import ModelError
from cbatch.llama.gguf_file import check_model_files
from cbatch.llama.locate import resolve_model
from cbatch.llama.tiny import write_tiny, write_tiny_lora
from tests.llama.split import write_split


def _write(path: Path, architecture: str, fill: Callable[[gguf.GGUFWriter], object], *, tensors: int = 1) -> Path:
    writer = gguf.GGUFWriter(path, architecture)
    fill(writer)
    for i in range(tensors):
        writer.add_tensor(f"t{i}", np.zeros((2, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _nothing(_: gguf.GGUFWriter) -> None:
    pass


def test_header_of_a_real_model() -> None:
    path = resolve_model("smollm2")
    found, header = check_model_files(path)
    assert found == path
    assert (header.architecture, header.n_tensors, header.quantisation) == ("llama", 272, "Q4_1")
    assert header.tensor_types == {"F32": 61, "Q4_1": 210, "Q8_0": 1}
    assert header.weight_types == {"Q4_1", "Q8_0"}
    assert (header.block_count, header.context_length, header.embedding_length) == (30, 8192, 576)
    assert (header.head_count, header.head_count_kv, header.key_length) == ((9,), (3,), None)
    assert header.bytes == header.data_end == path.stat().st_size


def test_numbers_may_be_given_for_each_block(tmp_path: Path) -> None:
    def fill(writer: gguf.GGUFWriter) -> None:
        writer.add_head_count_kv([4, 0, 2])
        writer.add_key_length(128)
        writer.add_value_length(64)

    _, header = check_model_files(_write(tmp_path / "m.gguf", "deci", fill))
    assert header.head_count_kv == (4, 0, 2)
    assert (header.key_length, header.value_length, header.head_count) == (128, 64, ())


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"<!DOCTYPE html><html>", "HTML page"),
        (b"\n<html lang=en>", "HTML page"),
        (b'\x10\0\0\0\0\0\0\0{"__metadata__":{}}', "safetensors"),
        (b"PK\x03\x04rest", "PyTorch"),
        (b"\x1f\x8b\x08rest", "compressed"),
        (b"tjggrest", "before August 2023"),
        (bytes(600), "unfinished download"),
        (b"# Notes", "starts with b'# Notes'"),
        (b"GGUF\x03\0\0\0", "8 bytes are less than a GGUF header"),
        (b"GGUF\0\0\0\x03" + bytes(16), "big-endian"),
        (b"GGUF\x01\0\0\0" + bytes(16), "version 1"),
        (b"GGUF\x09\0\0\0" + bytes(16), "version 9"),
    ],
)
def test_what_is_not_gguf_is_named(tmp_path: Path, start: bytes, message: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(start)
    with pytest.raises(ModelError) as caught:
        check_model_files(path)
    assert str(caught.value).startswith(f"{path} ")
    assert message in str(caught.value)


def test_missing_folder_and_special_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no\.gguf doesn't exist: give a GGUF file, smollm2, or hf:"):
        check_model_files(tmp_path / "no.gguf")
    with pytest.raises(ModelError, match=r"is a folder: give a GGUF file \(there is none in it\)"):
        check_model_files(tmp_path)
    write_tiny(tmp_path / "m.gguf")
    with pytest.raises(ModelError, match=r"is a folder: give one in it, such as .*m\.gguf"):
        check_model_files(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelError, match="isn't a regular file"):
        check_model_files(tmp_path / "pipe")


def test_what_the_system_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="can't be read: File name too long"):
        check_model_files(tmp_path / ("x" * 300))
    with pytest.raises(ModelError, match="doesn't exist"):
        check_model_files(write_tiny(tmp_path / "m.gguf") / "below a file")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(ModelError, match="can't be read: Permission denied"):
        check_model_files(tmp_path)


def test_unreadable(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ModelError, match="can't be read: Permission denied"):
        check_model_files(tiny_model)


def test_truncated_data_names_the_bytes(tiny_model: Path, tmp_path: Path) -> None:
    whole = tiny_model.read_bytes()
    path = tmp_path / "m.gguf"
    path.write_bytes(whole[:-1])
    with pytest.raises(ModelError, match=rf"is truncated: it has {len(whole) - 1:,} bytes of {len(whole):,}"):
        check_model_files(path)


# Of the file, the header takes the first 1,000 bytes or more.
@given(cut=st.integers(24, 1000))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_truncated_header(tiny_model: Path, tmp_path: Path, cut: int) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_model.read_bytes()[:cut])
    with pytest.raises(ModelError, match=rf"is truncated or damaged: in its {cut:,} bytes there is no whole header"):
        check_model_files(path)


@given(at=st.integers(8, 4000), value=st.integers(0, 255))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_header_is_an_error_or_harmless_and_never_a_crash(
    tiny_model: Path, tmp_path: Path, at: int, value: int
) -> None:
    data = bytearray(tiny_model.read_bytes())
    data[at] = value
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with contextlib.suppress(ModelError):
        assert check_model_files(path)[0] == path


@pytest.mark.parametrize(
    ("architecture", "fill", "message"),
    [
        ("llama", lambda w: w.add_type("mmproj"), "mmproj"),
        ("clip", _nothing, "mmproj"),
        ("llama", lambda w: w.add_type("imatrix"), "importance matrix"),
        ("controlvector", _nothing, "control vector"),
        ("t5", _nothing, "encoder-decoder"),
        ("t5encoder", _nothing, "embedding model"),
        ("bert", _nothing, "embedding model"),
        ("nomic-bert-moe", _nothing, "embedding model"),
        ("gemma-embedding", _nothing, "embedding model"),
        ("llama-embed", _nothing, "embedding model"),
        ("qwen3", lambda w: w.add_pooling_type(gguf.PoolingType.LAST), "embedding model"),
        ("llama", lambda w: w.add_causal_attention(False), "doesn't attend causally"),
        ("llada", _nothing, "diffusion model"),
    ],
)
def test_what_does_not_generate_text_is_named(
    tmp_path: Path, architecture: str, fill: Callable[[gguf.GGUFWriter], object], message: str
) -> None:
    path = _write(tmp_path / "m.gguf", architecture, fill)
    with pytest.raises(ModelError, match=message):
        check_model_files(path)


def test_vocabulary_only_lora_and_nameless(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds a vocabulary only"):
        check_model_files(_write(tmp_path / "vocab.gguf", "llama", _nothing, tensors=0))
    with pytest.raises(ModelError, match="is a LoRA adapter, not a model: pass it with --lora"):
        check_model_files(write_tiny_lora(tmp_path / "lora.gguf"))
    with pytest.raises(ModelError, match="doesn't name its architecture"):
        check_model_files(_write(tmp_path / "none.gguf", "", _nothing))


def test_pooling_type_none_is_a_generator(tmp_path: Path) -> None:
    path = _write(tmp_path / "m.gguf", "qwen3", lambda w: w.add_pooling_type(gguf.PoolingType.NONE))
    assert check_model_files(path)[1].pooling_type == 0


def test_embedded_devices_have_generators(tmp_path: Path) -> None:
    path = _write(tmp_path / "m.gguf", "pangu-embedded", _nothing)
    assert check_model_files(path)[1].architecture == "pangu-embedded"


def test_any_part_of_a_split_model_leads_to_the_first(tmp_path: Path, tiny_model: Path) -> None:
    parts = write_split(tmp_path / "big", parts=3)
    _, whole = check_model_files(tiny_model)
    for part in parts:
        path, header = check_model_files(part)
        assert path == parts[0]
        assert (header.architecture, header.n_tensors, header.tensor_types) == ("llama", 21, whole.tensor_types)
        assert header.bytes == sum(p.stat().st_size for p in parts)


def test_faults_of_split_models(tmp_path: Path) -> None:
    first, second, third = write_split(tmp_path / "big", parts=3)
    whole = second.read_bytes()
    second.write_bytes(whole[:-4])
    with pytest.raises(ModelError, match=r"big-00002-of-00003\.gguf is truncated"):
        check_model_files(first)
    second.write_bytes(third.read_bytes())
    with pytest.raises(ModelError, match="calls itself part 3 of 3 inside, but its name says 2 of 3"):
        check_model_files(first)
    second.unlink()
    with pytest.raises(ModelError, match=r"is one of 3 parts, and big-00002-of-00003\.gguf is missing beside it"):
        check_model_files(third)
    with pytest.raises(ModelError, match=r"its name doesn't end in -00001-of-00003\.gguf"):
        check_model_files(first.rename(tmp_path / "renamed.gguf"))


def test_parts_of_different_models(tmp_path: Path) -> None:
    first, _ = write_split(tmp_path / "big", parts=2)
    second = gguf.GGUFWriter(tmp_path / "big-00002-of-00002.gguf", "llama")
    second.add_uint16("split.no", 1)
    second.add_uint16("split.count", 2)
    second.write_header_to_file()
    second.write_kv_data_to_file()
    second.close()
    with pytest.raises(ModelError, match="hold 11 tensors of 21: they belong to different models"):
        check_model_files(first)
