"""No program or library of ours may load a library from the current folder or one that others can write to.

usage: run_path_test.py FOLDER ...   checks every ELF file below the folders (built, or installed)
"""
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile


def elf_files(folders):
    for folder in folders:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.is_file() and not path.is_symlink() and os.access(path, os.R_OK):
                with open(path, "rb") as f:
                    if f.read(4) == b"\x7fELF" and f.read(13)[-1:] in (b"\x02", b"\x03"):
                        yield path


def run_path(path):
    """The entries of RPATH and RUNPATH, in order."""
    out = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", out)
    return [entry for line in found for entry in line.split(":")]


def complaint(path, entry):
    if entry == "":
        return "an empty entry, which means the current folder"
    if not (entry.startswith("/") or re.match(r"\$(ORIGIN|\{ORIGIN\})(/|$)", entry)):
        return f"the relative entry '{entry}'"
    folder = pathlib.Path(re.sub(r"\$(ORIGIN|\{ORIGIN\})", str(path.parent), entry))
    if folder.is_dir() and stat.S_IMODE(folder.stat().st_mode) & stat.S_IWOTH:
        return f"'{entry}', which everyone can write to"
    return None


def programs(files):
    return [f for f in files if f.name == "forerun" and os.access(f, os.X_OK)]


def loads_from_current_folder(program):
    """True if a library that lies in the current folder, named as one that the program needs, is touched."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("libutf8proc.so.2", "libpcre2-8.so.0", "libpng16.so.16", "libfmt.so.9", "libxxhash.so.0"):
            pathlib.Path(folder, name).write_bytes(b"not a library")
        environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        done = subprocess.run([program, "--version"], cwd=folder, env=environment, capture_output=True, text=True)
        return done.returncode != 0 or "invalid ELF header" in done.stderr


def main():
    files = list(elf_files(sys.argv[1:]))
    bad = [f"{f}: its run path has {why}" for f in files for e in run_path(f) if (why := complaint(f, e))]
    ours = programs(files)
    if not ours:
        bad.append(f"no program 'forerun' below {' '.join(sys.argv[1:])}")
    bad += [f"{p}: takes a library from the current folder" for p in ours if loads_from_current_folder(p.resolve())]
    print("\n".join(bad) if bad else f"{len(files)} programs and libraries, none with an empty, relative or open entry")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
