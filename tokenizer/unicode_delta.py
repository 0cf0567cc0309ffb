#!/usr/bin/env python3
"""Writes unicode_delta.h: where the reference's Unicode tables differ from Unicode 14.0.

usage: unicode_delta.py > unicode_delta.h     (then clang-format -i unicode_delta.h)

Needs Python 3.11, whose unicodedata is Unicode 14.0 (the same as utf8proc 2.7, the oldest that Berth
builds with), and tokenizers==0.23.3. The reference takes each property from another library and
another Unicode version, so each is asked for, code point by code point, through the public interface.
Code points that Unicode 14.0 had not assigned are all listed, so that a newer utf8proc changes nothing.
"""
import string
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

assert unicodedata.unidata_version == "14.0.0", "run this with Python 3.11"
assert tokenizers.__version__ == "0.23.3"

DROP, SPACE, PUNCT, MARK, WORD, NFD = 1, 2, 4, 8, 16, 32
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def off(**on):
    switches = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**switches, **on})


def word_finder():
    """A token that is matched only beside a character that is not part of a word."""
    t = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    t.add_tokens([AddedToken("q", single_word=True, normalized=False)])
    q = t.token_to_id("q")
    return lambda chars: [q not in e.ids for e in t.encode_batch([c + "q" for c in chars])]


def class_finder(nfd):
    """Sorts a character into a ladder of marks, one of each combining class: where it lands is its class."""
    marks = {1: "\u0334", 240: "\u0345"}
    for c in CODE_POINTS:
        s, ccc = chr(c), unicodedata.combining(chr(c))
        if ccc and ccc not in marks and nfd.normalize_str("\u0345" + s) == s + "\u0345":
            marks[ccc] = s  # a mark that the reference knows as one
    classes = sorted(marks)
    ladder = "".join(marks[k] for k in classes)
    known = {m: k for k, m in marks.items()}
    assert nfd.normalize_str(ladder[::-1]) == ladder

    def find(s):
        if s in known:
            return known[s]
        if nfd.normalize_str(s + ladder[0]) != s + ladder[0]:
            return classes[nfd.normalize_str(ladder + s).index(s) - 1]
        return classes[0] if nfd.normalize_str(ladder + s)[1] == s else 0

    return find


def reference():
    clean, strip, nfd = off(clean_text=True), off(strip_accents=True), normalizers.NFD()
    lower, split = normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer()
    class_of = class_finder(nfd)
    in_word = word_finder()
    facts = {}
    for i in range(0, len(CODE_POINTS), 4096):
        part = CODE_POINTS[i : i + 4096]
        for c, word in zip(part, in_word([chr(c) for c in part])):
            s = chr(c)
            parts = [p for p, _ in split.pre_tokenize_str("a" + s + "b")]
            flags = WORD if word else 0
            flags |= DROP if clean.normalize_str(s) == "" else 0
            flags |= SPACE if parts == ["a", "b"] else PUNCT if parts == ["a", s, "b"] else 0
            flags |= MARK if strip.normalize_str(s) == "" else 0
            decomposed = nfd.normalize_str(s)
            ccc = class_of(s) if decomposed == s else 0
            facts[c] = (flags, ccc, lower.normalize_str(s), decomposed)
    return facts


def unicode_14(c):
    s = chr(c)
    cat = unicodedata.category(s)
    flags = SPACE if cat in ("Zs", "Zl", "Zp") or 9 <= c <= 13 or c == 0x85 else 0
    if c in (0, 0xFFFD) or (cat in ("Cc", "Cf", "Co") and s not in "\t\n\r"):
        flags |= DROP
    flags |= PUNCT if cat[0] == "P" or s in string.punctuation else 0
    flags |= MARK if cat == "Mn" else 0
    flags |= WORD if cat[0] in "LM" or cat in ("Nd", "Nl", "Pc") else 0
    return flags, unicodedata.combining(s), s.lower(), unicodedata.normalize("NFD", s)


def record(c, facts):
    """(flags, combining class, distance to the lower case) or None where Unicode 14.0 says the same."""
    flags, ccc, lower, decomposed = facts
    old_flags, old_ccc, old_lower, old_decomposed = unicode_14(c)
    if decomposed != chr(c):  # its own mark and class never count: only its parts are looked at
        flags, ccc = flags & ~MARK | old_flags & MARK, old_ccc
    same = (flags, ccc, lower, decomposed) == (old_flags, old_ccc, old_lower, old_decomposed)
    if same and unicodedata.category(chr(c)) != "Cn" and len(lower) == 1:
        return None
    if decomposed != chr(c):
        assert decomposed == old_decomposed, f"U+{c:04X}: the reference decomposes what 14.0 does not"
        flags |= NFD
    if c == 0x130:
        assert lower == "i\u0307"  # the one mapping to two characters; the caller adds the second
        lower = "i"
    assert len(lower) == 1, f"U+{c:04X}"
    return flags, ccc, ord(lower) - c


def ranges(facts):
    out = []
    for c in CODE_POINTS:
        r = record(c, facts[c])
        if r is None:
            continue
        if out and out[-1][1] == c - 1 and out[-1][2] == r:
            out[-1][1] = c
        else:
            out.append([c, c, r])
    return out


def main():
    rows = ranges(reference())
    print("/* unicode_delta.h - where tokenizers 0.23.3 differs from Unicode 14.0, by code point. Made by")
    print(" * unicode_delta.py, which says how; not edited by hand. A row wins over utf8proc's answer. */")
    print("#ifndef BERTH_TOKENIZER_UNICODE_DELTA_H\n#define BERTH_TOKENIZER_UNICODE_DELTA_H")
    print('#include "tokenizer/unicode.h"')
    print("/* first, last, facts, combining class, distance to the lower case */")
    print("static const struct unicode_row unicode_delta[] = {")
    for first, last, (flags, ccc, lower) in rows:
        print(f"{{0x{first:x}, 0x{last:x}, {flags}, {ccc}, {lower}}},")
    print("};\n#endif")
    print(f"{len(rows)} rows", file=sys.stderr)


if __name__ == "__main__":
    main()
