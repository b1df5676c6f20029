"""wheel.py STAGE FOLDER: packs what `make install PREFIX=STAGE` has installed as a wheel in FOLDER, and prints its name.

The layout of the prefix stays: pip puts bin/stridec among the environment's programs, lib/stridec and other data below
its prefix, and the pure Python package of packaging/python into site-packages. A wheel holds no links: files take their
place.
"""
import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
KEPT = ("bin/", "include/", "lib/stridec/", "share/man/", "share/doc/", "share/bash-completion/", "share/zsh/",
        "share/cmake/", "share/pkgconfig/")
# What else the dynamic loader may have to know, and the glibc that knows it.
ABIS = {"DT_RELR": (2, 36), "DT_X86_64_PLT": (2, 42), "GNU_TLS": (2, 42), "GNU2_TLS": (2, 42)}
METADATA = """\
Metadata-Version: 2.1
Name: stridec
Version: {version}
Summary: Compiles MPI datatypes into GPU kernels, beside any MPI
License: BSD-3-Clause
Classifier: License :: OSI Approved :: BSD License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Topic :: System :: Distributed Computing
Requires-Python: >=3.8
Provides-Extra: cuda12
Requires-Dist: nvidia-cuda-nvrtc-cu12; extra == "cuda12"
Provides-Extra: cuda13
Requires-Dist: nvidia-cuda-nvrtc>=13; extra == "cuda13"
Description-Content-Type: text/markdown

"""


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as text:
        return text.read()


def files_of(folder):
    """Yields each file below a folder, as its path there and its full path."""
    for parent, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        for name in sorted(names):
            full = os.path.join(parent, name)
            if os.path.isfile(full) and "__pycache__" not in full:
                yield os.path.relpath(full, folder), full


def contents(stage, version):
    """Yields path in the wheel and file."""
    data = f"stridec-{version}.data"
    for path, full in files_of(stage):
        if path.startswith(KEPT):
            to = "scripts/" + path[len("bin/"):] if path.startswith("bin/") else "data/" + path
            yield f"{data}/{to}", full
    yield from files_of(os.path.join(HERE, "python"))
    for full in (os.path.join(TOP, "LICENSE"), os.path.join(HERE, "NOTICES")):
        if os.path.exists(full):
            yield f"stridec-{version}.dist-info/licenses/{os.path.basename(full)}", full


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def glibc_of(paths):
    """Returns the newest version of glibc that one of these files asks for, as (2, 34)."""
    command = ["objdump", "-p", *filter(is_elf, paths)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    numbers = [(int(major), int(minor)) for major, minor in re.findall(r"\bGLIBC_(\d+)\.(\d+)", text)]
    return max(numbers + [ABIS[name] for name in re.findall(r"\bGLIBC_ABI_(\w+)", text)])


def write(name, entries):
    """Writes a wheel of (path, bytes, mode), with its record."""
    record = []
    with zipfile.ZipFile(name + ".new", "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content, mode in entries:
            info = zipfile.ZipInfo(path)
            info.external_attr = (0o100000 | mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            if path.endswith(".dist-info/RECORD"):
                content = "".join(record + [path + ",,\n"]).encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}\n")
            wheel.writestr(info, content)
    os.replace(name + ".new", name)


def main(stage, folder):
    version = read(TOP, "VERSION").strip()
    entries, files = [], list(contents(stage, version))
    for path, full in files:
        with open(full, "rb") as file:
            entries.append((path, file.read(), 0o755 if os.access(full, os.X_OK) else 0o644))
    glibc = glibc_of([full for _, full in files])
    tag = f"py3-none-manylinux_{glibc[0]}_{glibc[1]}_{platform.machine()}"
    info = f"stridec-{version}.dist-info"
    about = f"Wheel-Version: 1.0\nGenerator: stridec\nRoot-Is-Purelib: false\nTag: {tag}\n"
    entries += [
        (f"{info}/METADATA", (METADATA.format(version=version) + read(TOP, "README.md")).encode(), 0o644),
        (f"{info}/WHEEL", about.encode(), 0o644),
        (f"{info}/RECORD", b"", 0o644),
    ]
    name = os.path.join(folder, f"stridec-{version}-{tag}.whl")
    write(name, entries)
    print(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
