#!/usr/bin/env python3
"""Writes tests/data/formats: files made by the reference writers, which the tests of forerun/formats read.

Needs: pip install numpy gguf safetensors torch. Deterministic; run it again only to add values.
  blocks.gguf      per stored type T: tensor "T" of random blocks and "T.expected", the float32 numbers
                   that gguf.quants.dequantize gives; metadata of every type
  plain.safetensors  F32, F16 and BF16 tensors of the same numbers, with metadata
  matrix.npy       what numpy.save writes for float32 arange(12) / 8 as [3, 4]
"""

import pathlib

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import save_file

SEED = 20240607
ELEMENTS = 2048
# Byte offsets of the float16 scales in a block.
SCALES = {
    Type.Q8_0: [0], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2],
    Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.IQ4_NL: [0], Type.IQ4_XS: [0],
}
# Zeros, subnormals, the smallest and largest normal numbers, with both signs.
CORNERS = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x7BFF, 0xFBFF,
                    0x3C00, 0xBC00], dtype=np.uint16)


def random_halves(rng, n):
    """Bits of n finite float16 numbers of all magnitudes, the corners first."""
    bits = rng.integers(0, 1 << 16, n, dtype=np.uint16)
    bits = np.where((bits & 0x7C00) == 0x7C00, bits & 0xBFFF, bits).astype(np.uint16)
    bits[: len(CORNERS)] = CORNERS[:n]
    return rng.permutation(bits)


def random_blocks(rng, kind):
    """[rows, bytes] uint8: ELEMENTS numbers in two rows, every bit random but for infinite scales."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (ELEMENTS // elements, size), dtype=np.uint8)
    for offset in SCALES.get(kind, []):
        blocks[:, offset : offset + 2] = random_halves(rng, len(blocks)).reshape(-1, 1).view(np.uint8)
    if kind == Type.MXFP4:  # scales are exponents: the smallest, and the largest whose numbers are finite
        blocks[:, 0] = rng.permutation(np.concatenate([[0, 1, 2, 252], rng.integers(0, 253, len(blocks) - 4)]))
    if kind == Type.F16:
        blocks = random_halves(rng, ELEMENTS).view(np.uint8)
    if kind == Type.BF16:
        bits = rng.integers(0, 1 << 16, ELEMENTS, dtype=np.uint16)
        blocks = np.where((bits & 0x7F80) == 0x7F80, bits & 0xBFFF, bits).astype(np.uint16).view(np.uint8)
    if kind == Type.F32:
        bits = rng.integers(0, 1 << 32, ELEMENTS, dtype=np.uint32)
        blocks = np.where((bits & 0x7F800000) == 0x7F800000, bits & 0xBFFFFFFF, bits)
        blocks = blocks.astype(np.uint32).view(np.uint8)
    return blocks.reshape(2, -1)


def write_blocks(path):
    rng = np.random.default_rng(SEED)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint8("test.u8", 200)
    writer.add_int8("test.i8", -100)
    writer.add_uint16("test.u16", 60000)
    writer.add_int16("test.i16", -30000)
    writer.add_uint32("test.u32", 4000000000)
    writer.add_int32("test.i32", -2000000000)
    writer.add_float32("test.f32", 0.1)
    writer.add_bool("test.bool", True)
    writer.add_string("test.string", "na\u00efve")
    writer.add_uint64("test.u64", (1 << 64) - 1)
    writer.add_int64("test.i64", -(1 << 63))
    writer.add_float64("test.f64", 0.1)
    writer.add_array("test.strings", ["", "a", "\u0120the"])
    writer.add_array("test.integers", [1, -2, 3])
    writer.add_array("test.floats", [0.5, 1.5])
    writer.add_array("test.bools", [True, False])
    writer.add_array("test.nested", [[1, 2], [3]])
    for kind in [Type.F32, Type.F16, Type.BF16, *SCALES, Type.MXFP4]:
        blocks = random_blocks(rng, kind)
        expected = gguf.quants.dequantize(blocks, kind).astype(np.float32)
        assert np.isfinite(expected).all() and expected.size == ELEMENTS
        data = {Type.F32: np.float32, Type.F16: np.float16}.get(kind)
        if data is None:
            writer.add_tensor(kind.name, blocks, raw_dtype=kind)
        else:
            writer.add_tensor(kind.name, blocks.view(data))
        writer.add_tensor(f"{kind.name}.expected", expected)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_plain(path):
    numbers = torch.from_numpy(np.random.default_rng(SEED).standard_normal((5, 7)).astype(np.float32))
    numbers[0, 0] = 1.0 + 2.0**-8  # a tie: rounds to the even 1.0 in bfloat16
    numbers[0, 1] = 1.0 + 3 * 2.0**-8  # and up, to the even 1.015625
    tensors = {"f32": numbers, "f16": numbers.half(), "bf16": numbers.bfloat16(),
               "scalar": torch.tensor(2.5), "none": torch.zeros(0, 3)}
    save_file(tensors, path, metadata={"format": "pt", "note": "na\u00efve"})


def main():
    folder = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "formats"
    folder.mkdir(parents=True, exist_ok=True)
    write_blocks(folder / "blocks.gguf")
    write_plain(folder / "plain.safetensors")
    np.save(folder / "matrix.npy", (np.arange(12, dtype=np.float32) / 8).reshape(3, 4))


if __name__ == "__main__":
    main()
