"""Small real documents of every kind, made with nothing but the standard library: make_documents.py DIRECTORY."""
import pathlib
import sys
import zipfile
import zlib

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def archive(path, parts):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for name, text in parts:
            z.writestr(name, text)


def pdf(path):
    page = zlib.compress(b"BT /F1 12 Tf 72 700 Td (Paper says \\(hi\\)) Tj 0 -14 Td [(sec) 10 (ond) -300 (line)] TJ ET")
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
               b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
               b"/Resources << /Font << /F1 5 0 R >> >> >>",
               b"<< /Length %d /Filter /FlateDecode >>\nstream\n" % len(page) + page + b"\nendstream",
               b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    data, places = bytearray(b"%PDF-1.4\n"), []
    for n, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n" % n + body + b"\nendobj\n"
    start = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    data += b"".join(b"%010d 00000 n \n" % p for p in places)
    data += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    path.write_bytes(data)


def make(root):
    pdf(root / "paper.pdf")
    archive(root / "letter.docx", [("word/document.xml",
            '<w:document xmlns:w="%s"><w:body><w:p><w:r><w:t>Dear </w:t></w:r><w:r><w:t>reader</w:t></w:r></w:p>'
            '<w:p><w:r><w:t>second ä</w:t></w:r></w:p></w:body></w:document>' % WORD)])
    archive(root / "talk.pptx", [("ppt/presentation.xml", "<p/>"),
            ("ppt/slides/slide10.xml", "<s><p><t>ten</t></p></s>"), ("ppt/slides/slide2.xml", "<s><p><t>two</t></p></s>")])
    archive(root / "sums.xlsx", [("xl/workbook.xml", "<w/>"), ("xl/sharedStrings.xml", "<s><si><t>name</t></si></s>"),
            ("xl/worksheets/sheet1.xml", '<w><row><c t="s"><v>0</v></c><c><v>42</v></c></row></w>')])
    archive(root / "open.odt", [("content.xml", "<o><p>open <span>text</span> here</p><h>head</h></o>")])
    archive(root / "book.epub", [("META-INF/container.xml", "<c/>"), ("b.opf",
            '<p><item id="x" href="2.xhtml"/><item id="y" href="1.xhtml"/><itemref idref="x"/><itemref idref="y"/></p>'),
            ("1.xhtml", "<html><body><p>last</p></body></html>"), ("2.xhtml", "<html><body><p>first</p></body></html>")])
    (root / "page.html").write_text("<html><head><title>T</title><script>no()</script></head><body><h1>Head</h1>"
                                    "<p>a &amp;  b</p></body></html>", encoding="utf-8")
    (root / "note.rtf").write_bytes(rb"{\rtf1\ansi{\fonttbl{\f0 Arial;}}Hello \b bold\b0\par caf\'e9 \u8364?x}")


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
