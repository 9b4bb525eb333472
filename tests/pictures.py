"""Folders of small grey images by class, for tests of the command."""

import os
import struct
import zlib


def png(side, label, number):
    """A grey image with a bright bar that tells its class."""
    rows = b"".join(b"\0" + bytes((200 - number if y // 3 == label else 20) + (x * 7 + y * number) % 30
                                  for x in range(side)) for y in range(side))
    out = b"\x89PNG\r\n\x1a\n"
    for kind, data in ((b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(rows)),
                       (b"IEND", b"")):
        out += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return out


def write_data(folder, classes=5, side=16, splits=("train", "test")):
    for split in splits:
        for label in range(classes):
            at = os.path.join(folder, split, f"class{label}")
            os.makedirs(at)
            for number in range(12):
                with open(os.path.join(at, f"{number}.png"), "wb") as f:
                    f.write(png(side, label, number if split == "train" else number + 20))
