"""Files: every operation of fs."""
import io
import os

import daytona
from daytona import FileDownloadRequest, FileUpload

from tap import VERSION, WORK, by_status, class_of, fails, go, same, test

NotFound = daytona.DaytonaNotFoundError


@test("files: up and down: plain, empty, with blanks, with Unicode, in new folders, binary")
async def up_down(t):
    fs = (await t.box()).fs
    data = bytes(range(256)) * 100
    paths = ["plain.txt", "/home/daytona/with blank.txt", "deep/er/file.bin", "/tmp/quo'te\"d.txt", "a+b&c=d%20.txt",
             "--begin\r\nx".replace("\r\n", "-")]
    for path in paths:
        await go(fs.upload_file(data, path))
        same(await go(fs.download_file(path)), data, path)
    await go(fs.upload_file(b"", "empty"))
    same(await go(fs.download_file("empty")), b"")
    await go(fs.upload_file(b"short", "plain.txt")) # replaces
    same(await go(fs.download_file("plain.txt")), b"short")
    same(await t.sh("stat -c '%U %a' plain.txt; wc -c < deep/er/file.bin"), "daytona 644\n25600\n")
    await go(fs.upload_file(b"u", "žluť 漢字.txt"))
    same(await t.sh("cat 'žluť 漢字.txt'"), "u")
    if VERSION >= (0, 195): # before, the client can't name such a path
        same(await go(fs.download_file("žluť 漢字.txt")), b"u")


@test("files: from and to local files, sixteen megabytes")
async def local(t):
    fs = (await t.box()).fs
    source, target = os.path.join(WORK, "up.bin"), os.path.join(WORK, "down.bin")
    data = os.urandom(1 << 20) * 16
    with open(source, "wb") as f:
        f.write(data)
    await go(fs.upload_file(source, "big.bin"))
    same(await t.sh("stat -c %s big.bin"), "16777216\n")
    await go(fs.download_file("big.bin", target))
    with open(target, "rb") as f:
        assert f.read() == data
    os.unlink(source)
    os.unlink(target)


@test("files: many in one request")
async def bulk(t):
    fs = (await t.box()).fs
    await go(fs.upload_files([FileUpload(source=f"{i}".encode() * i, destination=f"bulk/{i}.txt") for i in range(20)]))
    got = await go(fs.download_files([FileDownloadRequest(source=f"bulk/{i}.txt") for i in range(20)]
                                     + [FileDownloadRequest(source="bulk/none"), FileDownloadRequest(source="bulk")]))
    same([r.source for r in got], [f"bulk/{i}.txt" for i in range(20)] + ["bulk/none", "bulk"])
    same([r.result for r in got[:20]], [f"{i}".encode() * i for i in range(20)])
    assert got[20].error and got[21].error and not got[20].result


@test("files: streams", since=(0, 210))
async def streams(t):
    fs = (await t.box()).fs
    data, seen = os.urandom(3 << 20), []
    await go(fs.upload_file_stream(io.BytesIO(data), "streamed.bin", on_progress=lambda p: seen.append(p.bytes_sent)))
    same(seen[-1] >= len(data), True)
    stream = await go(fs.download_file_stream("streamed.bin"))
    parts = [p async for p in stream] if hasattr(stream, "__aiter__") else list(stream)
    assert b"".join(parts) == data


@test("files: what is missing is not found")
async def missing(t):
    fs = (await t.box()).fs
    finer = class_of("DaytonaFileNotFoundError", "DaytonaError") if VERSION >= (0, 201) else daytona.DaytonaError
    await fails(finer, lambda: fs.download_file("no/such/file"))
    await fails(NotFound, lambda: fs.delete_file("no-such-file"), status=404)
    await fails(NotFound, lambda: fs.get_file_info("no-such-file"), status=404)
    await fails(NotFound, lambda: fs.list_files("no-such-dir"), status=404)
    await fails(NotFound, lambda: fs.move_files("no-such-file", "x"), status=404)
    await fails(daytona.DaytonaError, lambda: fs.download_file("/root/x"))
    await fails(daytona.DaytonaError, lambda: fs.upload_file(b"x", "/proc/nothing"))


@test("files: list and details")
async def listing(t):
    fs = (await t.box()).fs
    await t.sh("rm -rf l; mkdir -p l/sub; printf 12345 > l/file; chmod 640 l/file; ln -s file l/link; echo x > 'l/b lank'")
    got = {f.name: f for f in await go(fs.list_files("l"))}
    same(sorted(got), ["b lank", "file", "link", "sub"])
    f = got["file"]
    same((f.size, f.is_dir, f.mode, f.permissions, f.owner, f.group), (5, False, "-rw-r-----", "0640", "1000", "1000"))
    assert f.mod_time
    same((got["sub"].is_dir, got["sub"].mode[0]), (True, "d"))
    info = await go(fs.get_file_info("/home/daytona/l/file"))
    same((info.name, info.size, info.is_dir), ("file", 5, False))
    same((await go(fs.get_file_info("l"))).is_dir, True)
    assert "l" in [f.name for f in await go(fs.list_files("."))]


@test("files: folders, move, permissions, delete")
async def change(t):
    fs = (await t.box()).fs
    await t.sh("rm -rf made moved")
    await go(fs.create_folder("made/in/depth", "750"))
    await go(fs.create_folder("made/in/depth", "750")) # there already
    same(await t.sh("stat -c %a made/in/depth"), "750\n")
    await go(fs.upload_file(b"m", "made/a"))
    await go(fs.move_files("made/a", "made/b"))
    same(await t.sh("ls made"), "b\nin\n")
    await go(fs.upload_file(b"n", "made/c"))
    await fails(class_of("DaytonaConflictError"), lambda: fs.move_files("made/b", "made/c"), status=409)
    await go(fs.move_files("made", "moved"))
    await go(fs.set_file_permissions("moved/b", mode="600"))
    same(await t.sh("stat -c %a moved/b"), "600\n")
    await fails(by_status("DaytonaBadRequestError"), lambda: fs.set_file_permissions("moved/b", mode="9z"), status=400)
    await go(fs.delete_file("moved/b"))
    await fails(by_status("DaytonaBadRequestError"), lambda: fs.delete_file("moved"), status=400)
    await go(fs.delete_file("moved", recursive=True))
    same((await go((await t.box()).process.exec("test -e moved"))).exit_code, 1)


@test("files: find, search, replace")
async def search(t):
    fs = (await t.box()).fs
    await t.sh("rm -rf f; mkdir -p f/sub; printf 'one\\ntwo (x)\\nthree two (x)\\n' > f/a.txt; echo 'two (x)' > f/sub/b.md;"
               "printf '\\0two (x)' > f/binary")
    got = sorted((m.file.split("f/")[-1], m.line, m.content) for m in await go(fs.find_files("f", "two (x)")))
    same(got, [("a.txt", 2, "two (x)"), ("a.txt", 3, "three two (x)"), ("sub/b.md", 1, "two (x)")])
    same(await go(fs.find_files("f", "nowhere to be seen")), [])
    found = (await go(fs.search_files("f", "*.md"))).files
    same([p.split("f/")[-1] for p in found], ["sub/b.md"])
    same((await go(fs.search_files("f", "*.none"))).files, [])
    r = await go(fs.replace_in_files(["f/a.txt", "f/sub/b.md", "f/none"], "two (x)", "2 & $1"))
    same([(x.file.split("f/")[-1], x.success) for x in r], [("a.txt", True), ("sub/b.md", True), ("none", False)])
    assert r[2].error
    same(await t.sh("cat f/a.txt f/sub/b.md"), "one\n2 & $1\nthree 2 & $1\n2 & $1\n")


@test("files: nothing of the host through links")
async def links(t):
    fs = (await t.box()).fs
    await t.sh("ln -sfn / rootlink; ln -sfn /etc/hostname namelink")
    same((await go(fs.download_file("rootlink/etc/hostname"))), (await t.sh("cat /etc/hostname")).encode())
    await fails(daytona.DaytonaError, lambda: fs.download_file("rootlink/etc/shadow"))
    names = [f.name for f in await go(fs.list_files("rootlink/home"))]
    same(names, ["daytona"])
