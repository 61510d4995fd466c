"""From the bytes of an XML stream to UTF-8, whatever encoding they are in.

The parser is given UTF-8 only. So what it says about positions can be used to cut the element out
of what came, and bytes that do not decode are found here, with a name and a place.
"""

from __future__ import annotations

import codecs
import re

_BOMS = (
    # The longer ones first: those of UTF-32 begin like those of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# How "<?" begins in encodings with wide characters (XML 1.0, appendix F).
_WIDE = ((b"<\0?\0", "utf-16-le"), (b"\0<\0?", "utf-16-be"))
_EBCDIC = b"\x4c\x6f\xa7\x94"
_DECLARED = re.compile(rb"""<\?xml\s[^>]*?encoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["']""")
_DECLARATION_BYTES = 1024
# Codecs of Python's that are no encodings of documents: they have escapes, or a state in which
# plain bytes mean something else.
_NO_DOCUMENT = {"utf-7", "unicode_escape", "raw_unicode_escape", "idna", "punycode"}


class Undecodable(Exception):
    """Bytes are in no encoding that is known, or not in the one that was said."""


class Decoder:
    """Decodes chunks, as a byte order mark or the declaration of the stream says; else UTF-8."""

    def __init__(self) -> None:
        self._head = b""
        self._decoder: codecs.IncrementalDecoder | None = None
        self.encoding = "utf-8"

    def decode(self, chunk: bytes, *, last: bool = False) -> tuple[bytes, Undecodable | None]:
        """A chunk as UTF-8, up to what does not decode, and the error for that."""
        if self._decoder is None:
            chunk = self._head = self._head + chunk
            try:
                encoding = _encoding(chunk, last=last)
            except Undecodable as error:
                return b"", error
            if encoding is None:
                return b"", None
            self.encoding, chunk, self._head = encoding, _without_bom(chunk), b""
            self._decoder = codecs.getincrementaldecoder(encoding)()
        try:
            return self._decoder.decode(chunk, last).encode(), None
        except UnicodeError as error:
            return self._up_to(error), Undecodable(_reason(error, self.encoding))

    def _up_to(self, error: UnicodeError) -> bytes:
        if not isinstance(error, UnicodeDecodeError):
            return b""
        whole = codecs.getincrementaldecoder(self.encoding)()
        # `object` are the bytes that the decoder had kept, and the chunk.
        return whole.decode(error.object[: error.start]).encode(errors="replace")


def _reason(error: UnicodeError, encoding: str) -> str:
    if not isinstance(error, UnicodeDecodeError):
        return f"has characters that {encoding} does not allow"
    odd = error.object[error.start : error.end][:4].hex(" ")
    return f"has bytes ({odd}) that are not {encoding}"


def _encoding(head: bytes, *, last: bool) -> str | None:
    """The encoding of a stream that begins like this; None if more of it must be seen."""
    if len(head) < 4 and not last:
        return None
    if head.startswith(_EBCDIC):
        raise Undecodable("is in EBCDIC")
    by_bom = next((name for bom, name in _BOMS if head.startswith(bom)), None)
    wide = by_bom or next((name for begin, name in _WIDE if head.startswith(begin)), None)
    # The declaration has characters of ASCII only.
    plain = _without_bom(head)
    if wide is not None and wide != "utf-8":
        plain = plain.replace(b"\0", b"")
    is_begun = b"<?xml".startswith(plain[:5]) and b">" not in plain
    if is_begun and not last and len(plain) < _DECLARATION_BYTES:
        return None
    declared = _DECLARED.match(plain[:_DECLARATION_BYTES])
    if declared is None:
        return wide or "utf-8"
    return _agreed(declared[1].decode("ascii"), wide, by_bom)


def _agreed(declared: str, wide: str | None, by_bom: str | None) -> str:
    """The encoding that a declaration names, if the first bytes do not say another one."""
    try:
        known = codecs.lookup(declared)
    except LookupError:
        known = None
    if known is None or known.name in _NO_DOCUMENT or not getattr(known, "_is_text_encoding", True):
        raise Undecodable(f"declares the encoding {declared!r}, which is not known")
    if wide is None:
        if known.name.startswith(("utf-16", "utf-32")):
            raise Undecodable(f"declares {declared}, but its first bytes are not {declared}")
        return known.name
    if not wide.startswith(known.name):
        what = "has the byte order mark of" if by_bom else "begins as"
        raise Undecodable(f"declares {declared}, but {what} {wide}")
    return wide


def _without_bom(head: bytes) -> bytes:
    return head[next((len(bom) for bom, _ in _BOMS if head.startswith(bom)), 0) :]
