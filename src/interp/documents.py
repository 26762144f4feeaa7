# SPDX-License-Identifier: Apache-2.0
"""The text of documents, told inside the sandbox: their readers are where attacks on readers go. Standard library only.

As a program: `python3 -c SOURCE FILE…` writes FILE.extracted.txt beside each and says one JSON line per file. In the driver:
`text_of(data, name, content_type)`.
"""
import html.parser
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zipfile
import zlib

MAX_PART = 64 << 20  # of one part of an archive, unpacked
MAX_PARTS = 2000
MAX_STREAM = 32 << 20
BLOCKS = frozenset(
    "address article aside blockquote br dd div dl dt fieldset figcaption footer form h1 h2 h3 h4 h5 h6 header hr li main "
    "nav ol p pre section table td th tr ul title".split())
SILENT = frozenset("script style noscript template".split())


class NoDocument(ValueError):
    """Not a document whose text can be told."""


# ---- HTML -------------------------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.parts = []
        self.silent = 0
        self.pre = 0

    def handle_starttag(self, tag, attrs):
        self.silent += tag in SILENT
        self.pre += tag == "pre"
        if tag in BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag):
        self.silent -= tag in SILENT and self.silent > 0
        self.pre -= tag == "pre" and self.pre > 0
        if tag in BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data):
        if not self.silent:
            self.parts.append(data if self.pre else re.sub(r"\s+", " ", data))


def tidy(text):
    """No blanks at line ends, at most one empty line."""
    lines = [line.strip(" \t\r") for line in text.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"


def from_html(data):
    page = Page()
    page.feed(decode(data))
    page.close()
    return tidy("".join(page.parts))


def decode(data):
    if data[:3] == b"\xef\xbb\xbf":
        return data[3:].decode("utf-8", "replace")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    named = re.search(rb"charset=[\"']?([A-Za-z0-9_.:-]+)", data[:2048])
    try:
        return data.decode(named.group(1).decode("ascii") if named else "utf-8", "replace")
    except LookupError:
        return data.decode("utf-8", "replace")


# ---- archives of XML: office, EPUB ------------------------------------------------------------------------------


def part(archive, name):
    info = archive.getinfo(name)
    if info.file_size > MAX_PART:
        raise NoDocument("'%s' in it is too large" % name)
    with archive.open(info) as f:
        return f.read(MAX_PART + 1)[:MAX_PART]


def local(tag):
    return tag.rsplit("}", 1)[-1] if isinstance(tag, str) else ""


def tree(data):
    if b"<!ENTITY" in data:
        raise NoDocument("its XML defines entities")
    return xml.etree.ElementTree.fromstring(data)


def runs(root, text_tags, break_tags):
    """The characters of the text tags, with a line end after each of the break tags."""
    out = []

    def walk(node):
        name = local(node.tag)
        if name in text_tags and node.text:
            out.append(node.text)
        if name == "tab":
            out.append("\t")
        for child in node:
            walk(child)
            if text_tags is ODF and child.tail:
                out.append(child.tail)
        if name in break_tags:
            out.append("\n")

    walk(root)
    return "".join(out)


ODF = frozenset("p h span a".split())


def numbered(names, pattern):
    found = [(int(m.group(1)), m.group(0)) for m in (re.fullmatch(pattern, n) for n in names) if m]
    return [name for _number, name in sorted(found)[:MAX_PARTS]]


def from_docx(archive):
    return runs(tree(part(archive, "word/document.xml")), frozenset(["t"]), frozenset(["p", "br", "tr"]))


def from_pptx(archive):
    slides = numbered(archive.namelist(), r"ppt/slides/slide(\d+)\.xml")
    return "\n".join(runs(tree(part(archive, s)), frozenset(["t"]), frozenset(["p"])) for s in slides)


def from_xlsx(archive):
    names, shared, out = archive.namelist(), [], []
    if "xl/sharedStrings.xml" in names:
        for item in tree(part(archive, "xl/sharedStrings.xml")):
            shared.append("".join(t.text or "" for t in item.iter() if local(t.tag) == "t"))
    for sheet in numbered(names, r"xl/worksheets/sheet(\d+)\.xml"):
        for row in (n for n in tree(part(archive, sheet)).iter() if local(n.tag) == "row"):
            out.append("\t".join(cell_text(c, shared) for c in row if local(c.tag) == "c"))
        out.append("")
    return "\n".join(out)


def cell_text(cell, shared):
    values = [n.text or "" for n in cell.iter() if local(n.tag) in ("v", "t")]
    if cell.get("t") == "s" and values and values[0].isdigit():
        at = int(values[0])
        return shared[at] if at < len(shared) else ""
    return "".join(values)


def from_odf(archive):
    return runs(tree(part(archive, "content.xml")), ODF, frozenset(["p", "h"]))


def from_epub(archive):
    names = [n for n in archive.namelist() if re.search(r"\.x?html?$", n, re.I)]
    return "\n".join(from_html(part(archive, n)) for n in spine(archive, names)[:MAX_PARTS])


def spine(archive, names):
    """The pages in reading order, if the package says one."""
    opf = [n for n in archive.namelist() if n.endswith(".opf")]
    if not opf:
        return sorted(names)
    root, base = tree(part(archive, opf[0])), os.path.dirname(opf[0])
    ids = {n.get("id"): os.path.normpath(os.path.join(base, n.get("href") or ""))
           for n in root.iter() if local(n.tag) == "item"}
    ordered = [ids.get(n.get("idref")) for n in root.iter() if local(n.tag) == "itemref"]
    return [n for n in ordered if n in names] or sorted(names)


def from_zip(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = frozenset(archive.namelist())
        for mark, reader in (("word/document.xml", from_docx), ("ppt/presentation.xml", from_pptx),
                             ("xl/workbook.xml", from_xlsx), ("META-INF/container.xml", from_epub),
                             ("content.xml", from_odf)):
            if mark in names:
                return tidy(reader(archive))
    raise NoDocument("an archive of no known kind")


# ---- RTF --------------------------------------------------------------------------------------------------------

RTF_TOKEN = re.compile(r"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-z])|([{}])|[\r\n]+|([^\\{}\r\n]+)", re.I)
RTF_SKIP = frozenset("fonttbl colortbl stylesheet info pict object header footer listtable themedata datastore".split())


def from_rtf(data):
    out, stack, skip, after = [], [], False, 0
    for m in RTF_TOKEN.finditer(data.decode("latin-1")):
        word, number, byte, symbol, brace, plain = m.groups()
        if brace == "{":
            stack.append(skip)
        elif brace:
            skip = stack.pop() if stack else False
        elif word in RTF_SKIP or symbol == "*":
            skip = True
        elif skip:
            continue
        elif word == "u" and number:
            out.append(chr(int(number) & 0xFFFF))
            after = 1  # a stand-in for old readers follows
        elif byte or plain:
            text = bytes([int(byte, 16)]).decode("cp1252", "replace") if byte else plain
            out.append(text[after:])
            after = 0
        elif word in ("par", "line", "row", "sect", "page"):
            out.append("\n")
        elif word in ("tab", "cell"):
            out.append("\t")
        elif symbol in ("\\", "{", "}"):
            out.append(symbol)
        elif symbol == "~":
            out.append(" ")
    joined = "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return tidy(joined)


# ---- PDF --------------------------------------------------------------------------------------------------------

PDF_STREAM = re.compile(rb"<<(.{0,4000}?)>>\s*stream\r?\n", re.S)
PDF_TEXT = re.compile(rb"\((?:[^\\()]|\\.|\((?:[^\\()]|\\.)*\))*\)|<[0-9A-Fa-f\s]*>|\[|\]|[-+.\d]+|[A-Za-z'\"*]+", re.S)
ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


def from_pdf(data):
    tool = shutil.which("pdftotext")
    if tool:
        with tempfile.NamedTemporaryFile(suffix=".pdf") as f:
            f.write(data)
            f.flush()
            done = subprocess.run([tool, "-q", f.name, "-"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, timeout=120)
        if done.returncode == 0 and done.stdout.strip():
            return tidy(done.stdout.decode("utf-8", "replace").replace("\f", "\n"))
    streams = list(pdf_streams(data))
    table = pdf_unicode(streams)
    pages = [pdf_page(s, table) for s in streams if b"BT" in s and b"begincmap" not in s]
    text = tidy("\n".join(p for p in pages if p.strip()))
    if not text.strip():
        raise NoDocument("no text in this PDF (scanned or encrypted?)")
    return text


def pdf_streams(data):
    for m in PDF_STREAM.finditer(data):
        end = data.find(b"endstream", m.end())
        body = data[m.end():end if end >= 0 else len(data)]
        if b"FlateDecode" in m.group(1):
            try:
                body = zlib.decompressobj().decompress(body, MAX_STREAM)
            except zlib.error:
                continue
        elif b"/Filter" in m.group(1):
            continue
        yield body


def pdf_unicode(streams):
    """What codes mean, merged over all fonts: enough for the usual one-encoding document."""
    table = {}
    for s in streams:
        if b"begincmap" not in s:
            continue
        for body in re.findall(rb"beginbfchar(.*?)endbfchar", s, re.S):
            for code, to in re.findall(rb"<([0-9A-Fa-f]+)>\s*<([0-9A-Fa-f]+)>", body):
                table[(len(code) // 2, int(code, 16))] = utf16(to)
        for body in re.findall(rb"beginbfrange(.*?)endbfrange", s, re.S):
            for low, high, to in re.findall(rb"<([0-9A-Fa-f]+)>\s*<([0-9A-Fa-f]+)>\s*<([0-9A-Fa-f]+)>", body):
                for n in range(min(int(high, 16) - int(low, 16) + 1, 65536)):
                    table[(len(low) // 2, int(low, 16) + n)] = utf16(b"%0*x" % (len(to), int(to, 16) + n))
    return table


def utf16(digits):
    return bytes.fromhex((digits if len(digits) % 2 == 0 else b"0" + digits).decode("ascii")).decode("utf-16-be", "replace")


def pdf_string(token, table):
    if token[:1] == b"<":
        digits = re.sub(rb"\s", b"", token[1:-1])
        raw = bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode("ascii"))
    else:
        raw = re.sub(rb"\\([0-7]{1,3}|\r?\n|.)", unescape, token[1:-1], flags=re.S)
    width = 2 if any(k[0] == 2 for k in table) and token[:1] == b"<" else 1
    codes = [int.from_bytes(raw[i:i + width], "big") for i in range(0, len(raw), width)]
    return "".join(table.get((width, c)) or (chr(c) if 31 < c < 256 or c in (9, 10) else "") for c in codes)


def unescape(m):
    what = m.group(1)
    if what[:1].isdigit():
        return bytes([int(what, 8) & 255])
    return b"" if what in (b"\n", b"\r\n") else ESCAPES.get(what, what)


def pdf_page(stream, table):
    out, strings, numbers, in_array = [], [], [], False
    for token in PDF_TEXT.findall(stream):
        first = token[:1]
        if first in b"(<":
            strings.append(pdf_string(token, table))
        elif first in b"[]":
            in_array = first == b"["
        elif first in b"-+.0123456789":
            numbers.append(token)
            if in_array and len(token) > 3 and first == b"-":
                strings.append(" ")  # a gap as wide as a blank
        else:
            if token in (b"Tj", b"TJ"):
                out.append("".join(strings))
            elif token in (b"'", b'"'):
                out.append("\n" + "".join(strings))
            elif token in (b"T*", b"ET") or (token in (b"Td", b"TD") and numbers[-1:] not in ([b"0"], [])):
                out.append("\n")
            elif token == b"Tm":
                out.append("\n")
            strings, numbers = [], []
    return "".join(out)


# ---- which ------------------------------------------------------------------------------------------------------

EXTENSIONS = frozenset(".pdf .docx .pptx .xlsx .odt .ods .odp .html .htm .xhtml .epub .rtf".split())


def is_document(name):
    return os.path.splitext(name.lower())[1] in EXTENSIONS


def text_of(data, name="", content_type=""):
    """The text of a document by what it is, then by its name; whatever else is UTF-8 is text already."""
    kind = content_type.split(";")[0].strip().lower()
    extension = os.path.splitext(name.lower())[1]
    try:
        if data[:5] == b"%PDF-":
            return from_pdf(data)
        if data[:5] == b"{\\rtf":
            return from_rtf(data)
        if data[:4] == b"PK\x03\x04":
            return from_zip(data)
        if kind in ("text/html", "application/xhtml+xml") or extension in (".html", ".htm", ".xhtml") or \
                re.match(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype html|html)", data[:200], re.I):
            return from_html(data)
    except NoDocument:
        raise
    except (zipfile.BadZipFile, xml.etree.ElementTree.ParseError, KeyError, ValueError, EOFError, NotImplementedError,
            RuntimeError, RecursionError, zlib.error, OSError) as e:
        raise NoDocument("damaged: %s" % e) from None
    if b"\0" in data[:8192]:
        raise NoDocument("a binary file of no known kind")
    return decode(data)


def main(paths):
    for path in paths:
        told = {"path": path, "ok": True}
        try:
            with open(path, "rb") as f:
                text = text_of(f.read(), path)
            with open(path + ".extracted.txt", "w", encoding="utf-8", errors="replace") as f:
                f.write(text)
        except (NoDocument, OSError, subprocess.SubprocessError) as e:
            told = {"path": path, "ok": False, "reason": str(e)}
        print(json.dumps(told), flush=True)


if __name__ == "__main__" and len(sys.argv) > 1:
    main(sys.argv[1:])
