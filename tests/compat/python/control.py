"""Sandboxes, volumes and snapshots: the control plane."""
import datetime
import uuid

import daytona
from daytona import CreateSandboxFromSnapshotParams, Resources, VolumeMount

from tap import Skip, VERSION, by_status, class_of, fails, fresh, go, has, items, same, test

NotFound = daytona.DaytonaNotFoundError


@test("create without any wish")
async def create_default(t):
    box = await t.create()
    same(str(uuid.UUID(box.id)), box.id)
    same(box.name, box.id)
    same(box.state, "started")
    same(box.user, "daytona")
    same(box.public, False)
    same(box.auto_stop_interval, 15)
    same(box.auto_archive_interval, 10080)
    same(box.auto_delete_interval, -1)
    same(box.labels, {"code-toolbox-language": "python"})
    same((box.gpu, box.env, box.volumes or []), (0, {}, []))
    assert box.cpu > 0 and box.memory > 0 and box.disk > 0
    assert box.snapshot and box.target and box.organization_id
    made = datetime.datetime.fromisoformat(box.created_at.replace("Z", "+00:00"))
    assert abs((datetime.datetime.now(datetime.timezone.utc) - made).total_seconds()) < 300
    same((await go(box.process.exec("echo hi"))).result, "hi\n")


@test("create with name, labels, env and intervals; get by id and by name")
async def create_with_all(t):
    name = fresh("named")
    box = await t.create(name=name, labels={"a": "1", "ü": "ö"}, env_vars={"K": "v w", "EMPTY": ""}, public=True,
                         auto_stop_interval=7, auto_archive_interval=60, auto_delete_interval=120, language="javascript")
    for got in (box, await go(t.client.get(box.id)), await go(t.client.get(name))):
        same(got.id, box.id)
        same(got.name, name)
        same(got.labels, {"a": "1", "ü": "ö", "code-toolbox-language": "javascript"})
        same(got.env, {"K": "v w", "EMPTY": ""})
        same((got.auto_stop_interval, got.auto_archive_interval, got.auto_delete_interval), (7, 60, 120))
        same(got.public, True)
    r = await go(box.process.exec('echo "$K|$EMPTY|$DAYTONA_SANDBOX_ID|$DAYTONA_SANDBOX_USER"; hostname'))
    same(r.result, f"v w||{box.id}|daytona\n{box.id}\n")


@test("the default snapshot by its name")
async def create_snapshot(t):
    first = await t.box()
    box = await t.create(snapshot=first.snapshot)
    same(box.snapshot, first.snapshot)
    error = await fails(by_status("DaytonaBadRequestError"), lambda: t.client.create(
        CreateSandboxFromSnapshotParams(snapshot="no/such:snapshot")), status=400)
    has(str(error), "no/such:snapshot")


@test("snapshots: list and get")
async def snapshots(t):
    box = await t.box()
    page = await go(t.client.snapshot.list())
    assert page.total >= 1 and page.items, page
    assert box.snapshot in [s.name for s in page.items]
    one = await go(t.client.snapshot.get(box.snapshot))
    same((one.name, one.state), (box.snapshot, "active"))
    same((await go(t.client.snapshot.get(one.id))).id, one.id)
    page = await go(t.client.snapshot.list(page=1, limit=1))
    same(len(page.items), 1)
    await fails(NotFound, lambda: t.client.snapshot.get("no/such:snapshot"), status=404)


@test("a snapshot of an image keeps its variables")
async def snapshot_variables(t):
    name = fresh("env")
    image = daytona.Image.base("daytonaio/sandbox:0.5.0").env({"A": "b c", "B": "it's"}).env({"B": "2"})
    snapshot = await go(t.client.snapshot.create(daytona.CreateSnapshotParams(name=name, image=image)))
    box = await t.create(snapshot=name, env_vars={"A": "mine"})
    same((await go(box.process.exec('echo "$A|$B"'))).result, "mine|2\n")
    box = await t.create(image=daytona.Image.base(name).env({"C": "3"}))
    same((await go(box.process.exec('echo "$A|$B|$C"'))).result, "b c|2|3\n")
    await go(t.client.snapshot.delete(snapshot))


@test("an image with resources")
async def create_image(t):
    box = await t.box()
    snapshots = [s.name for s in (await go(t.client.snapshot.list())).items]
    made = await t.create(image=box.snapshot if box.snapshot in snapshots else snapshots[0],
                          resources=Resources(cpu=1, memory=1, disk=3))
    same((made.cpu, made.memory, made.disk), (1, 1, 3))
    same((await go(made.process.exec("echo there"))).result, "there\n")


@test("memory has a limit that kills, and the error names it")
async def memory_limit(t):
    box = await t.box()
    made = await t.create(image=box.snapshot, resources=Resources(cpu=1, memory=1, disk=3))
    r = await go(made.process.exec("python3 -c 'x = b\"x\" * (3 << 30); print(len(x))'", timeout=50))
    assert r.exit_code != 0, r


@test("a name is unique, and free again the moment delete is accepted")
async def names(t):
    name = fresh("unique")
    first = await t.create(name=name)
    error = await fails(class_of("DaytonaConflictError"), lambda: t.client.create(
        CreateSandboxFromSnapshotParams(name=name)), status=409)
    has(str(error), name)
    for _ in range(3):
        await go(first.delete())
        again = await t.create(name=name)
        assert again.id != first.id
        first = again


@test("two sandboxes do not see each other's files")
async def apart(t):
    a, b = await t.together(lambda: t.client.create(), lambda: t.client.create())
    t._made += [a, b]
    await go(a.fs.upload_file(b"mine", "/home/daytona/mine"))
    same((await go(b.process.exec("test -e /home/daytona/mine"))).exit_code, 1)


@test("stop and start keep files; the states are told")
async def stop_start(t):
    box = await t.create(name=fresh("stops"))
    await go(box.fs.upload_file(b"still here", "kept.txt"))
    await go(box.stop())
    same(box.state, "stopped")
    same((await go(t.client.get(box.id))).state, "stopped")
    await fails(daytona.DaytonaError, lambda: box.process.exec("true"))
    await go(box.start())
    same(box.state, "started")
    same(await go(box.fs.download_file("kept.txt")), b"still here")
    await go(t.client.stop(box))
    await go(t.client.start(box))
    await go(box.start()) # started already: nothing to do
    same((await go(box.process.exec("cat kept.txt"))).result, "still here")


@test("archive, then start")
async def archive(t):
    box = await t.create()
    await go(box.fs.upload_file(b"old", "old.txt"))
    await fails(by_status("DaytonaBadRequestError"), box.archive, status=400) # runs
    await go(box.stop())
    await go(box.archive())
    await t.until("archived", lambda: _state_is(t, box.id, "archived"))
    await go(box.start())
    same(await go(box.fs.download_file("old.txt")), b"old")


async def _state_is(t, sandbox_id, state):
    return (await go(t.client.get(sandbox_id))).state == state


@test("recover of a stopped one starts it")
async def recover(t):
    box = await t.create()
    await go(box.stop())
    await go(box.recover())
    same(box.state, "started")
    same((await go(box.process.exec("echo up"))).result, "up\n")


@test("delete is final, in every state")
async def delete(t):
    box = await t.create(name=fresh("gone"))
    await go(t.client.delete(box))
    for key in (box.id, box.name):
        await fails(NotFound, lambda k=key: t.client.get(k), status=404)
    await fails(NotFound, box.refresh_data, status=404)
    await fails(NotFound, lambda: box.process.exec("true"), status=404)
    await fails(NotFound, box.delete, status=404)
    stopped = await t.create()
    await go(stopped.stop())
    await go(stopped.delete())
    await fails(NotFound, lambda: t.client.get(stopped.id))


@test("delete that waits", since=(0, 201))
async def delete_waits(t):
    box = await t.create()
    await go(box.delete(wait=True))
    await fails(NotFound, lambda: t.client.get(box.id))


@test("an ephemeral one ends when it is stopped")
async def ephemeral(t):
    box = await t.create(ephemeral=True, labels={"e": "1"}, auto_stop_interval=30)
    same(box.auto_delete_interval, 0)
    await go(box.stop(timeout=10))
    await t.until("gone", lambda: _is_gone(t, box.id))
    await fails(NotFound, box.delete)


async def _is_gone(t, sandbox_id):
    try:
        await go(t.client.get(sandbox_id))
    except NotFound:
        return True
    return False


@test("labels and intervals can be changed")
async def setters(t):
    box = await t.create(labels={"old": "x"})
    same(await go(box.set_labels({"code-toolbox-language": "python", "new": "y"})),
         {"code-toolbox-language": "python", "new": "y"})
    await go(box.set_autostop_interval(33))
    await go(box.set_auto_archive_interval(44))
    await go(box.set_auto_delete_interval(55))
    await go(box.refresh_data())
    same(box.labels, {"code-toolbox-language": "python", "new": "y"})
    same((box.auto_stop_interval, box.auto_archive_interval, box.auto_delete_interval), (33, 44, 55))
    await go(box.set_auto_delete_interval(-1))
    await go(box.set_autostop_interval(0))
    await go(box.refresh_data())
    same((box.auto_stop_interval, box.auto_delete_interval), (0, -1))
    await fails(daytona.DaytonaError, lambda: box.set_autostop_interval(-1))
    await go(box.refresh_activity())


@test("public flag and time to live can be changed", since=(0, 210))
async def newer_setters(t):
    box = await t.create()
    await go(box.set_ttl(90))
    await go(box.refresh_data())
    assert box.auto_destroy_at
    await go(box.set_ttl(0))
    await go(box.refresh_data())
    assert not box.auto_destroy_at
    await go(box.set_public(True))
    await go(box.refresh_data())
    same(box.public, True)


@test("list with labels finds them, page by page")
async def listing(t):
    tag = fresh("tag")
    boxes = [await t.create(labels={"tag": tag, "n": str(i)}) for i in range(3)]
    want = sorted(b.id for b in boxes)
    if VERSION >= (0, 180):
        query = daytona.ListSandboxesQuery
        same(sorted(b.id for b in await items(t.client.list(query(labels={"tag": tag})))), want)
        same(sorted(b.id for b in await items(t.client.list(query(labels={"tag": tag}, limit=1)))), want, "limit 1")
        same([b.id for b in await items(t.client.list(query(labels={"tag": tag, "n": "1"})))], [boxes[1].id])
        same([b.id for b in await items(t.client.list(query(name=boxes[2].id[:13].upper())))], [boxes[2].id])
        await go(boxes[0].stop())
        stopped = query(labels={"tag": tag}, states=[daytona.SandboxState.STOPPED])
        same([b.id for b in await items(t.client.list(stopped))], [boxes[0].id])
        long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
        same(await items(t.client.list(query(labels={"tag": tag}, created_at_before=long_ago))), [])
        same(len(await items(t.client.list(query(labels={"tag": tag}, created_at_after=long_ago)))), 3)
        listed = (await items(t.client.list(query(labels={"tag": tag, "n": "2"}))))[0]
        same((await go(listed.process.exec("echo of the list"))).result, "of the list\n")
    else:
        page = await go(t.client.list({"tag": tag}))
        same(sorted(b.id for b in page.items), want)
        same((page.total, page.page, page.total_pages), (3, 1, 1))
        page = await go(t.client.list({"tag": tag}, page=2, limit=2))
        same((len(page.items), page.total, page.page, page.total_pages), (1, 3, 2, 2))
        assert set(want) <= {b.id for b in (await go(t.client.list())).items}
    await t.tidy()
    if VERSION >= (0, 180):
        same(await items(t.client.list(daytona.ListSandboxesQuery(labels={"tag": tag}))), [])
    else:
        same((await go(t.client.list({"tag": tag}))).items, [])


@test("volumes: made on demand, listed, shared, with sub-paths, deleted")
async def volumes(t):
    name = fresh("vol")
    volume = await go(t.client.volume.get(name, create=True))
    await t.until("ready", lambda: _volume_is_ready(t, name))
    same((await go(t.client.volume.get(name))).id, volume.id)
    same((await go(t.client.volume.get(name, create=True))).id, volume.id)
    assert volume.id in [v.id for v in await go(t.client.volume.list())]
    mount = "/home/daytona/shared"
    a = await t.create(volumes=[VolumeMount(volume_id=volume.id, mount_path=mount + "/")])
    b = await t.create(volumes=[VolumeMount(volume_id=name, mount_path=mount),
                                VolumeMount(volume_id=volume.id, mount_path="/mnt/part", subpath="users/anna")])
    same([(v.volume_id, v.mount_path, v.subpath) for v in b.volumes],
         [(volume.id, mount, None), (volume.id, "/mnt/part", "users/anna")])
    await go(a.fs.upload_file(b"from a", mount + "/a.txt"))
    same(await go(b.fs.download_file(mount + "/a.txt")), b"from a")
    same((await go(b.process.exec("echo from b > /mnt/part/b.txt"))).exit_code, 0)
    same(await go(a.fs.download_file(mount + "/users/anna/b.txt")), b"from b\n")
    same((await go(a.process.exec(f"mkdir {mount}/users/bert"))).exit_code, 0) # the way to anna is the user's too
    await fails(Exception, lambda: t.client.volume.delete(volume), status=409) # in use
    await go(a.delete())
    await go(b.delete())
    c = await t.create(volumes=[VolumeMount(volume_id=volume.id, mount_path="/data")])
    same((await go(c.process.exec("cat /data/a.txt; cat /data/users/anna/b.txt"))).result, "from afrom b\n")
    await go(c.delete())
    await go(t.client.volume.delete(volume))
    assert volume.id not in [v.id for v in await go(t.client.volume.list()) if v.state == "ready"]
    await fails(Exception, lambda: t.client.volume.get(name), status=404)


async def _volume_is_ready(t, name):
    return (await go(t.client.volume.get(name))).state == "ready"


@test("volumes that cannot be mounted are refused")
async def bad_volumes(t):
    volume = await go(t.client.volume.get(fresh("bad"), create=True))
    for mount, of in (("/etc/x", volume.id), ("relative", volume.id), ("/a/../b", volume.id), ("/", volume.id),
                      ("/data", "no-such-volume"), ("/mnt/" + "x" * 300, volume.id)):
        await fails(by_status("DaytonaBadRequestError"), lambda m=mount, v=of: t.client.create(
            CreateSandboxFromSnapshotParams(volumes=[VolumeMount(volume_id=v, mount_path=m)])), status=400)
    await go(t.client.volume.delete(volume))


@test("errors have the class and the status that the SDK knows")
async def errors(t):
    await fails(NotFound, lambda: t.client.get(str(uuid.uuid4())), status=404)
    await fails(NotFound, lambda: t.client.get("no-such-name"), status=404)
    cls = daytona.AsyncDaytona if t.is_async else daytona.Daytona
    stranger = cls(daytona.DaytonaConfig(api_key="dtn_" + "0" * 64))
    await fails(class_of("DaytonaAuthenticationError"), lambda: stranger.get("x"), status=401)
    if hasattr(stranger, "close"):
        await go(stranger.close())


@test("no network when it is blocked, loopback always")
async def blocked(t):
    box = await t.create(network_block_all=True)
    same(box.network_block_all, True)
    probe = ("import socket\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n"
             "socket.create_connection(s.getsockname(), 5); print('loopback')\n"
             "try:\n    socket.create_connection(('192.0.2.1', 80), 3); print('outside')\n"
             "except OSError as e: print('no', type(e).__name__ != 'TimeoutError')\n")
    same((await go(box.process.code_run(probe))).result, "loopback\nno True\n")


@test("work dir and home dir")
async def dirs(t):
    box = await t.box()
    same(await go(box.get_work_dir()), "/home/daytona")
    same(await go(box.get_user_home_dir()), "/home/daytona")


@test("metrics of now", since=(0, 215))
async def metrics(t):
    box = await t.box()
    if not hasattr(box, "get_metrics_latest"):
        raise Skip("not in this SDK")
    m = await go(box.get_metrics_latest())
    assert m.cpu_count > 0 and m.mem_total > 0 and m.disk_total > 0, m


@test("metrics of the past: none are kept", since=(0, 215))
async def old_metrics(t):
    same(await go((await t.box()).get_metrics()), [])


@test("the generated client takes what the server tells of itself", only="sync")
async def generated_client(t):
    import daytona_api_client as api
    client = t.client._api_client # no public way leads there
    box = await t.box()
    config = api.ConfigApi(client).config_controller_get_config()
    has(config.proxy_toolbox_url, "/toolbox")
    organizations = api.OrganizationsApi(client)
    same([o.id for o in organizations.list_organizations()], [box.organization_id])
    same(organizations.get_organization(box.organization_id).suspended, False)
    assert api.UsersApi(client).get_authenticated_user().id
    assert api.RegionsApi(client).list_shared_regions()
    keys = api.ApiKeysApi(client)
    name = fresh("key")
    assert keys.create_api_key(api.CreateApiKey(name=name, permissions=[])).value
    assert name in [k.name for k in keys.list_api_keys()]
    assert keys.get_current_api_key().name
    keys.delete_api_key(name)


@test("what is not here says so by its name", since=(0, 201))
async def absent(t):
    box = await t.box()
    has(str(await fails(daytona.DaytonaError, lambda: box.create_ssh_access(10), status=501)), "SSH")
    lsp = box.create_lsp_server(daytona.LspLanguageId.PYTHON, "project")
    has(str(await fails(daytona.DaytonaError, lambda: lsp.start(), status=501)), "LSP")
    error = await fails(class_of("DaytonaServiceUnavailableError"), lambda: box.computer_use.start(), status=503)
    has(str(error), "desktop")
    has(str(await fails(Exception, lambda: t.client.warm_pool.list(), status=501)), "warm pools")
    has(str(await fails(Exception, lambda: t.client.secret.list(), status=501)), "secrets")


@test("the environment of later commands can be changed", since=(0, 215))
async def update_env(t):
    box = await t.create(env_vars={"GONE": "1"})
    await go(box.update_env({"LATER": "yes"}, unset=["GONE"]))
    same((await go(box.process.exec('echo "$LATER-$GONE"'))).result, "yes-\n")
