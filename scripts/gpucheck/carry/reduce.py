"""Keeps, of a library with CUDA code for many architectures, what one needs: the machine code for it, or else PTX, of which
the driver makes it as it is used.

    python3 reduce.py LIBRARY OUTPUT ARCHITECTURE [PTXAS FOLDER]

With a compiler of PTX it is machine code always. The folder keeps what that has made.

Code lies in the section .nv_fatbin: containers ("fatbins"), one for each source file, of entries, which are PTX or ELF for
an architecture. Each is filled again, in its place, with the one entry that is kept; the rest becomes zeros, of which a
packed file has nothing.
"""

import os
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CONTAINER = 0xBA55ED50
PTX, ELF = 1, 2
LZ4 = 0x2000  # flag of an entry


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

    def whole(self):
        return bytes(self.data[self.at:self.at + self.size])

    def content(self):
        start = self.at + self.header
        if self.flags & LZ4:
            import lz4.block  # only --compile needs it

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


def code_for(architecture, number, entries):
    """The entry that an architecture runs as it is, or the newest PTX for it."""
    for e in entries:
        if e.kind == ELF and e.architecture == architecture:
            return e
    usable = [e for e in entries if e.kind == PTX and e.architecture <= architecture]
    if not usable:
        sys.exit(f"container {number} has no code for {architecture}")
    return max(usable, key=lambda e: e.architecture)


def compiled(entry, template, architecture, ptxas, made):
    """An entry of the machine code of PTX, with a header."""
    if not made.exists():
        source, new = made.with_suffix(".ptx"), made.with_suffix(".new")
        source.write_bytes(bytes(entry.content()).rstrip(b"\0"))
        subprocess.run([ptxas, f"-arch=sm_{architecture}", "-o", new, source], check=True)
        source.unlink()
        new.rename(made)
    code = made.read_bytes()
    code += bytes(-len(code) % 8)
    head = template.head()
    struct.pack_into("<Q", head, 8, len(code))
    struct.pack_into("<I", head, 28, architecture)
    return bytes(head) + code


def main():
    library, output, architecture, *compiler = sys.argv[1:]
    architecture = int(architecture)
    data = bytearray(Path(library).read_bytes())
    all_of_them = list(containers(data))

    def kept(number):
        entries = all_of_them[number][3]
        entry = code_for(architecture, number, entries)
        if entry.kind == ELF or not compiler:
            return entry.kind, entry.whole()
        template = next(e for e in entries if e.kind == ELF)
        ptxas, folder = compiler
        return ELF, compiled(entry, template, architecture, ptxas, Path(folder) / f"{architecture}-{number:03d}.cubin")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        codes = list(pool.map(kept, range(len(all_of_them))))
    for (at, start, stop, _), (_, code) in zip(all_of_them, codes):
        if len(code) > stop - start:
            sys.exit("the code for one architecture is longer than that for all")
        data[start:stop] = code + bytes(stop - start - len(code))
        struct.pack_into("<Q", data, at + 8, len(code))
    for (_, _, _, entries), (kind, _) in zip(containers(data), codes):
        if [e.kind for e in entries] != [kind] or entries[0].architecture > architecture:
            sys.exit("what was written is not what was meant")
    Path(output).write_bytes(data)
    ptx = sum(kind == PTX for kind, _ in codes)
    print(f"{len(codes) - ptx} modules of machine code and {ptx} of PTX for {architecture}, {sum(len(code) for _, code in codes) / 1e6:.1f} MB")


main()
