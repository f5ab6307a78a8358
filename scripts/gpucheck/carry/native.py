"""Keeps, of a library with CUDA code for many architectures, the machine code for one, which is made of its PTX if need be.

    python3 native.py LIBRARY OUTPUT ARCHITECTURE PTXAS FOLDER

Code lies in the section .nv_fatbin: containers ("fatbins"), one for each source file, of entries, which are PTX or ELF for
an architecture. Each is filled again, in its place, with the one entry that is kept; the rest becomes zeros, of which a
packed file has nothing. The folder keeps what the compiler of PTX has made.
"""

import os
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lz4.block

CONTAINER = 0xBA55ED50
PTX, ELF = 1, 2
LZ4 = 0x2000  # of an entry's flags


def section(data, wanted):
    """Offset and size of a section of an ELF file."""
    table, = struct.unpack_from("<Q", data, 40)
    number, names = struct.unpack_from("<HH", data, 60)
    headers = [struct.unpack_from("<IIQQQQ", data, table + 64 * i) for i in range(number)]
    strings = headers[names][4]
    for name, _, _, _, offset, size in headers:
        if data[strings + name:data.index(b"\0", strings + name)] == wanted:
            return offset, size
    sys.exit(f"there is no section {wanted.decode()}")


class Entry:
    """One of a container: its header, and what it holds."""

    def __init__(self, data, at):
        self.kind, _, self.header, self.stored, self.packed = struct.unpack_from("<HHIQI", data, at)
        self.architecture, = struct.unpack_from("<I", data, at + 28)
        self.flags, _, self.unpacked = struct.unpack_from("<QQQ", data, at + 40)
        self.data, self.at = data, at
        self.size = self.header + self.stored

    def head(self):
        return bytearray(self.data[self.at:self.at + self.header])

    def content(self):
        start = self.at + self.header
        if self.flags & LZ4:
            return lz4.block.decompress(self.data[start:start + self.packed], uncompressed_size=self.unpacked)
        return self.data[start:start + self.stored]


def containers(data):
    """Start, end and entries of each."""
    at, size = section(data, b".nv_fatbin")
    end = at + size
    while at < end:
        magic, _, header, content = struct.unpack_from("<IHHQ", data, at)
        if magic != CONTAINER:
            at += 8
            continue
        start, stop, entries = at + header, at + header + content, []
        while start < stop:
            entries.append(Entry(data, start))
            start += entries[-1].size
        yield at, at + header, stop, entries
        at = stop


def machine_code(number, entries, architecture, ptxas, folder):
    """An entry of machine code for the architecture, with its header."""
    for e in entries:
        if e.kind == ELF and e.architecture == architecture:
            return bytes(e.data[e.at:e.at + e.size])
    usable = [e for e in entries if e.kind == PTX and e.architecture <= architecture]
    templates = [e for e in entries if e.kind == ELF]
    if not usable or not templates:
        raise SystemExit(f"container {number} has no code for {architecture}")
    made = folder / f"{architecture}-{number:03d}.cubin"
    if not made.exists():
        source, new = made.with_suffix(".ptx"), made.with_suffix(".new")
        source.write_bytes(bytes(max(usable, key=lambda e: e.architecture).content()).rstrip(b"\0"))
        subprocess.run([ptxas, f"-arch=sm_{architecture}", "-o", new, source], check=True)
        source.unlink()
        new.rename(made)
    code = made.read_bytes()
    code += bytes(-len(code) % 8)
    head = templates[0].head()
    struct.pack_into("<Q", head, 8, len(code))
    struct.pack_into("<I", head, 28, architecture)
    return bytes(head) + code


def main():
    library, output, architecture, ptxas, folder = sys.argv[1:]
    architecture, folder = int(architecture), Path(folder)
    data = bytearray(Path(library).read_bytes())
    all_of_them = list(containers(data))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        codes = list(pool.map(lambda x: machine_code(x[0], x[1][3], architecture, ptxas, folder), enumerate(all_of_them)))
    for (at, start, stop, _), code in zip(all_of_them, codes):
        if len(code) > stop - start:
            sys.exit("the code for one architecture is longer than that for all")
        data[start:stop] = code + bytes(stop - start - len(code))
        struct.pack_into("<Q", data, at + 8, len(code))
    for _, _, _, entries in containers(data):
        if [(e.kind, e.architecture) for e in entries] != [(ELF, architecture)]:
            sys.exit("what was written is not what was meant")
    Path(output).write_bytes(data)
    print(f"{len(codes)} modules, {sum(map(len, codes)) / 1e6:.1f} MB of code for {architecture}")


main()
