#!/usr/bin/env python3
"""Makes a data set of small colour images to train on: emoji on white, a folder for each group.

usage: emoji_folder.py FOLDER [--packages CACHE] [--side 32]      (npm; Pillow and NumPy of requirements.txt)

FOLDER/train/GROUP/*.png  [side, side, 3]; every image of a group that has no writing also mirrored (.m.png), so that
                          networks are trained on it with --no-flip and see no mirrored letter and no mirrored flag
FOLDER/test/GROUP/*.png   all drawings of one symbol in 16, by a hash of the symbol
FOLDER/LICENSES.md        whose drawings they are, and under which licences

A symbol is there once for each set of drawings, without its variants of skin tone, and without drawings that are nearly
those of another set. The same packages give the same pixels. Packages are fetched by npm into CACHE (in place of a
temporary folder), unless they lie there, and compared with their SHA-512.
"""

import argparse
import base64
import hashlib
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
from PIL import Image

# The first is the one that names groups: `category` of its emoji.json, which is CLDR's.
SETS = (
    ("google", "google", "16.0.0",
     "ZRexfzs7MVoLnmzZmNsO4TKhnAJp5D++Vm6PpUpH/jEQQlemp3l88CjZ+DoZ2faM9R4QxZkOPJCoT8DlPhfQ3A=="),
    ("twitter", "twitter", "16.0.0",
     "7F+uCuHH+7Qnrc15P5tnbvKkg9E6tlzi4MnT2uW1RlN4pLYTza6cP/dstIfSDMtpjFLWuZewWg8jBbuL2eyELQ=="),
    ("blob", "google", "3.0.0",
     "Ms+IO6V40EKcfBjxs76iLYQexo6Tgl8MbTxM7Z4Qm5n/Hwkr/DNNYui40aU3YaVd8oRNLaMXN1/rS++/VHViPQ=="),
)
LEFT_OUT = {"Component"}
WITH_WRITING = {"Flags", "Symbols"}
NEARLY_EQUAL = 8.0  # mean difference of 8-bit samples, below which a drawing is another one with details redrawn
HELD_OUT = 16

LICENSES = """# Emoji: sources and licences

The images are emoji, composited on white and averaged to {side} x {side} pixels; some are mirrored. `NAME.SET.png` has its
drawing from

| SET | drawings | licence | package |
| --- | --- | --- | --- |
| google | Noto Emoji 2.048, copyright Google Inc. | Apache License 2.0 (the font: SIL Open Font License 1.1) | emoji-datasource-google 16.0.0 |
| blob | Noto Emoji of Android (April 2017), copyright the Android Open Source Project | Apache License 2.0 (the font: SIL Open Font License 1.1) | emoji-datasource-google 3.0.0 |
| twitter | Twemoji 16.0.1, copyright Twitter, Inc and other contributors | Creative Commons Attribution 4.0 International, https://creativecommons.org/licenses/by/4.0/ | emoji-datasource-twitter 16.0.0 |

Groups and names of symbols are those of the packages' data: copyright (c) 2013 Cal Henderson, MIT licence.
"""


def fail(message):
    sys.exit(f"emoji_folder: {message}")


def fetch(vendor, version, sha512, cache):
    """The package's tar file, from `cache` or by npm."""
    name = f"emoji-datasource-{vendor}"
    path = cache / f"{name}-{version}.tgz"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(["npm", "pack", "--silent", "--ignore-scripts", f"{name}@{version}"], cwd=cache, check=True,
                           stdout=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError) as error:
            fail(f"npm pack {name}@{version}: {error}; install npm, check that it reaches a registry, or put "
                 f"{path.name} into a folder and name it by --packages")
    found = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    if found != sha512:
        fail(f"{path}: SHA-512 is {found}, expected {sha512}; remove the file and try again, or try another registry")
    return path


def read_set(path, vendor):
    """What a package tells of its symbols, and {file name: bytes} of its images."""
    images = {}
    with tarfile.open(path) as archive:
        for member in archive:
            if member.name == "package/emoji.json":
                symbols = json.load(archive.extractfile(member))
            elif member.name.startswith(f"package/img/{vendor}/64/"):
                images[member.name.rpartition("/")[2]] = archive.extractfile(member).read()
    return [s for s in symbols if s.get(f"has_img_{vendor}")], images


def code(symbol):
    """The symbol's code points without the variation selector, which versions of the data write or leave out."""
    return symbol["unified"].lower().replace("-fe0f", "")


def on_white(png, side):
    """[side, side, 3] uint8: the image on white, each pixel the mean of its area."""
    image = Image.open(io.BytesIO(png)).convert("RGBA")
    white = Image.new("RGBA", image.size, (255, 255, 255, 255))
    white.alpha_composite(image)
    return np.asarray(white.convert("RGB").resize((side, side), Image.Resampling.BOX))


def drawings(cache, side):
    """{code: (group, {set: pixels})}, drawings that are nearly an earlier set's left out."""
    out = {}
    for number, (name, vendor, version, sha512) in enumerate(SETS):
        symbols, images = read_set(fetch(vendor, version, sha512, cache), vendor)
        for symbol in symbols:
            if number == 0 and symbol["category"] not in LEFT_OUT:
                out[code(symbol)] = (symbol["category"], {})
            if code(symbol) not in out:
                continue  # withdrawn, or a component
            pixels = on_white(images[symbol["image"]], side)
            others = out[code(symbol)][1]
            far = lambda other: np.abs(pixels.astype(int) - other).mean() >= NEARLY_EQUAL
            if name not in others and all(map(far, others.values())):
                others[name] = pixels
    return out


def held_out(name):
    return hashlib.sha256(name.encode()).digest()[0] % HELD_OUT == 0


def save(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, optimize=True)


def write(folder, symbols, side):
    """Writes the data set; {(split, group): images}."""
    counts = {}
    for name, (category, sets) in sorted(symbols.items()):
        split = "test" if held_out(name) else "train"
        group = re.sub(r"[^a-z]+", "-", category.lower())
        for set_name, pixels in sets.items():
            save(folder / split / group / f"{name}.{set_name}.png", pixels)
            mirrored = split == "train" and category not in WITH_WRITING
            if mirrored:
                save(folder / split / group / f"{name}.{set_name}.m.png", np.ascontiguousarray(pixels[:, ::-1]))
            counts[split, group] = counts.get((split, group), 0) + 1 + mirrored
    (folder / "LICENSES.md").write_text(LICENSES.format(side=side))
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--packages", type=pathlib.Path, metavar="CACHE", help="where npm's packages lie or are put")
    parser.add_argument("--side", type=int, default=32, choices=[16, 32, 64])
    a = parser.parse_args()
    if a.folder.exists():
        fail(f"{a.folder} is there already; remove it or name another folder")
    a.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=a.folder.parent, prefix=f".{a.folder.name}.") as work:
        work = pathlib.Path(work)
        symbols = drawings(a.packages or work / "packages", a.side)
        counts = write(work / "images", symbols, a.side)
        shutil.move(work / "images", a.folder)
    for (split, group), count in sorted(counts.items()):
        print(f"{split}/{group}: {count} images")
    print(f"{a.folder}: {sum(counts.values())} images of {len(symbols)} symbols; credits in LICENSES.md. To train: forerun "
          f"train mar --data {a.folder} --no-flip --out mar")


if __name__ == "__main__":
    main()
