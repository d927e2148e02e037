"""The names of the files in a zip, where the zip does not say how they are encoded.

A zip marks names in UTF-8 by a flag, or adds them in a field of their own. Many tools
(Finder's Compress, Windows' own) write UTF-8 or the machine's code page and mark
nothing; Python reads all of these as code page 437. Here the encoding is chosen for all
names of a zip together: UTF-8 where they are UTF-8, else the code page in which they
look most like names.

Source: PKWARE, ".ZIP File Format Specification" 6.3.10, 4.4.4 (bit 11), 4.6.9 (the
field 0x7075), appendix D.
"""

from __future__ import annotations

import re
import unicodedata
import zipfile
import zlib
from collections.abc import Sequence

# of equally likely ones the first
_CODE_PAGES = (
    *("cp850", "gbk", "cp932", "big5", "cp949", "cp866"),
    *("cp852", "cp1252", "cp1250", "cp1251", "cp437"),
)
_UTF8 = 0x800
_UNICODE_PATH = 0x7075


def decoded(infos: Sequence[zipfile.ZipInfo]) -> list[str]:
    """The names of a zip's files, in order."""
    raw = [_raw(info) for info in infos]
    unmarked = [name for name in raw if name is not None]
    page = _encoding(unmarked)
    return [
        (_unicode_path(info, name) or name.decode(page, "backslashreplace"))
        if name is not None
        else info.filename
        for info, name in zip(infos, raw, strict=True)
    ]


def _raw(info: zipfile.ZipInfo) -> bytes | None:
    """The bytes of a name that is not ASCII and not marked; None elsewhere."""
    if info.flag_bits & _UTF8 or info.filename.isascii():
        return None
    try:
        return info.filename.encode("cp437")
    except UnicodeEncodeError:  # Python has read the field 0x7075 itself
        return None


def _unicode_path(info: zipfile.ZipInfo, raw: bytes) -> str:
    """The name in UTF-8 that stands beside the first one, if it is of the same name."""
    at = 0
    while at + 4 <= len(info.extra):
        kind, size = (int.from_bytes(info.extra[i : i + 2], "little") for i in (at, at + 2))
        field = info.extra[at + 4 : at + 4 + size]
        same = int.from_bytes(field[1:5], "little") == zlib.crc32(raw)
        if kind == _UNICODE_PATH and field[:1] == b"\x01" and same:
            return field[5:].decode("utf-8", "replace")
        at += 4 + size
    return ""


def _encoding(names: Sequence[bytes]) -> str:
    try:
        for name in names:
            name.decode("utf-8")
        return "utf-8"
    except UnicodeDecodeError:
        return max(_CODE_PAGES, key=lambda page: _likelihood(names, page))


def _likelihood(names: Sequence[bytes], page: str) -> float:
    """How much the names look like names in a code page, per byte that is not ASCII."""
    points = 0.0
    try:
        words = [word for name in names for word in re.findall(r"[^\W\d_]+|\W", name.decode(page))]
    except UnicodeDecodeError:
        return float("-inf")
    for word in words:
        odd = [c for c in word if not c.isascii()]
        wide = [c for c in odd if len(c.encode(page)) == 2]
        if wide:  # the commonest signs of a language have the middle of its table
            points += sum(2.0 if _is_common(c, page) else -4.0 for c in wide)
            points -= 2.0 * (len(wide) < len(word))  # a word of two scripts
        elif odd:
            letters = unicodedata.category(odd[0])[0] in "LM"
            points += len(odd) if letters else -2.0 * len(odd)
            latin = all("LATIN" in unicodedata.name(c, "") for c in odd)
            points -= len(odd) * (letters and not latin and len(odd) < len(word))
            points -= max(0, len(odd) - 2) * (latin and len(odd) == len(word))
            points -= 2.0 * (word[1:] != word[1:].lower() and word != word.upper())
    return points / max(1, sum(byte > 127 for name in names for byte in name))


def _is_common(sign: str, page: str) -> bool:
    lead, trail = sign.encode(page)
    if page == "cp932":
        return 0x88 <= lead <= 0x97
    if page == "big5":
        return 0xA4 <= lead <= 0xC6
    return 0xB0 <= lead <= (0xD7 if page == "gbk" else 0xC8) and trail >= 0xA1
