#!/usr/bin/env python3
"""Writes the demo model's held-out sentences, which train.py never trained on, with the label that people gave them.

  held_out.py SDIST > held_out.tsv

SDIST  the PyPI sdist vaderSentiment==3.3.2 (MIT), as `pip download --no-deps --no-binary :all: vaderSentiment==3.3.2` fetches it;
       or the folder hutto_ICWSM_2014/ of it, unpacked

A line a sentence: LABEL, a tab, the sentence. The same rules as in train.py: sentences whose mean rating lies in (-0.4, 0.4) are
left out, a sentence counts once, and the first byte of its sha256 decides. `berth models check` reads the file as it is.
"""
import hashlib, io, os, sys, tarfile

MARGIN, HELD_OUT = 0.4, 26  # of 256


def unpack(sdist):
    """{file name: text} of the rated sentences, from the archive inside the archive."""
    with tarfile.open(sdist) as outer:
        inner = next(m for m in outer.getmembers() if m.name.endswith("/hutto_ICWSM_2014.tar.gz"))
        with tarfile.open(fileobj=io.BytesIO(outer.extractfile(inner).read())) as data:
            return {os.path.basename(m.name): data.extractfile(m).read().decode("latin-1")
                    for m in data.getmembers() if m.name.endswith("_GroundTruth.txt") and not os.path.basename(m.name).startswith(".")}


def read_folder(folder):
    return {name: open(os.path.join(folder, name), encoding="latin-1").read()
            for name in os.listdir(folder) if name.endswith("_GroundTruth.txt")}


def held_out(files):
    """[(label, text)] in the order of the files."""
    seen, rows = set(), []
    for name in sorted(files):
        for line in files[name].split("\n"):
            parts = line.rstrip("\r\n").split("\t", 2)
            if len(parts) != 3:
                continue
            mean, text = float(parts[1]), parts[2].strip()
            if abs(mean) < MARGIN or not text or text in seen:
                continue
            seen.add(text)
            if hashlib.sha256(text.encode()).digest()[0] < HELD_OUT:
                rows.append(("POSITIVE" if mean > 0 else "NEGATIVE", text))
    return rows


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    path = sys.argv[1]
    out = sys.stdout
    out.reconfigure(encoding="utf-8", newline="\n")
    for label, text in held_out(read_folder(path) if os.path.isdir(path) else unpack(path)):
        out.write(f"{label}\t{' '.join(text.split())}\n")


if __name__ == "__main__":
    main()
