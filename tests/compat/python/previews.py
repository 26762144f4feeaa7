"""Previews: a server started in a session, asked from outside by the link the SDK gives."""
import asyncio
import urllib.error
import urllib.request

from daytona import SessionExecuteRequest as Request

from tap import fresh, go, same, test


def fetch(link, path="", token=True, data=None):
    headers = {"x-daytona-preview-token": link.token} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(link.url.rstrip("/") + path, data, headers), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@test("preview: http.server in a session, fetched with the link's token")
async def served(t):
    box = await t.box()
    s = fresh("web")
    await go(box.fs.upload_file(b"hello from inside", "site/index.html"))
    link = await go(box.get_preview_link(3000))
    same((await asyncio.to_thread(fetch, link))[0], 502)  # nothing there yet, and said so at once
    await go(box.process.create_session(s))
    await go(box.process.execute_session_command(s, Request(command="cd site && python3 -m http.server 3000", run_async=True)))
    await t.until("a server", lambda: asyncio.to_thread(lambda: fetch(link)[0] == 200))
    got = await asyncio.to_thread(fetch, link, "/index.html?x=1")
    same(got, (200, "hello from inside"))
    same((await asyncio.to_thread(fetch, link))[1], "hello from inside")
    same((await asyncio.to_thread(fetch, link, "/nothing"))[0], 404)
    same((await asyncio.to_thread(fetch, link, "/", True, b"x=1"))[0], 501)  # it knows no POST
    same((await asyncio.to_thread(fetch, link, "/", False))[0], 401)
    signed = await go(box.create_signed_preview_url(3000, expires_in_seconds=60))
    same((signed.sandbox_id, signed.port), (box.id, 3000))
    same((await asyncio.to_thread(fetch, signed, "/index.html", False))[0], 200)
    await go(box.expire_signed_preview_url(3000, signed.token))
    same((await asyncio.to_thread(fetch, signed, "/index.html", False))[0], 401)
    await go(box.process.delete_session(s))
