'use strict'
// Sandboxes, volumes and snapshots: the control plane.
const { sdk, isOld, test, fresh, fails, until, assert } = require('./tap.cjs')
const NotFound = 'DaytonaNotFoundError', Bad = ['DaytonaBadRequestError', 'DaytonaValidationError']

test('create without any wish', async (t) => {
  const box = await t.create()
  assert.equal(box.state, 'started')
  assert.equal(box.name, box.id)
  assert.match(box.id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.deepEqual([box.user, box.public, box.autoStopInterval, box.autoDeleteInterval], ['daytona', false, 15, -1])
  assert.equal((await box.process.executeCommand('echo hi')).result, 'hi\n')
})

test('create with name, labels, env and intervals; get by id and by name', async (t) => {
  const name = fresh('named')
  const box = await t.create({ name, language: 'typescript', labels: { a: '1' }, envVars: { K: 'v w' }, autoStopInterval: 7,
    autoArchiveInterval: 60, autoDeleteInterval: 120, public: true })
  for (const got of [box, await t.client.get(box.id), await t.client.get(name)]) {
    assert.equal(got.id, box.id)
    assert.equal(got.labels.a, '1')
    assert.equal(got.env.K, 'v w')
    assert.deepEqual([got.autoStopInterval, got.autoArchiveInterval, got.autoDeleteInterval, got.public], [7, 60, 120, true])
  }
  assert.equal((await box.process.executeCommand('echo "$K"')).result, 'v w\n')
})

test('snapshots: list, get, create from one', async (t) => {
  const box = await t.box()
  const page = await t.client.snapshot.list()
  assert.ok(page.items.some((s) => s.name === box.snapshot))
  const one = await t.client.snapshot.get(box.snapshot)
  assert.equal(one.state, 'active')
  assert.equal((await t.create({ snapshot: one.name })).snapshot, one.name)
  await fails(NotFound, () => t.client.snapshot.get('no/such:snapshot'), 404)
  await fails(Bad, () => t.client.create({ snapshot: 'no/such:snapshot' }), 400)
})

test('an image with resources', async (t) => {
  const box = await t.create({ image: (await t.box()).snapshot, resources: { cpu: 1, memory: 1, disk: 3 } })
  assert.deepEqual([box.cpu, box.memory, box.disk], [1, 1, 3])
})

test('a name is unique, and free again the moment delete is accepted', async (t) => {
  const name = fresh('unique')
  let first = await t.create({ name })
  await fails('DaytonaConflictError', () => t.client.create({ name }), 409)
  for (let i = 0; i < 3; i++) {
    await first.delete()
    const again = await t.create({ name })
    assert.notEqual(again.id, first.id)
    first = again
  }
})

test('stop, start, archive, recover keep files', async (t) => {
  const box = await t.create()
  await box.fs.uploadFile(Buffer.from('kept'), 'kept.txt')
  await box.stop()
  assert.equal(box.state, 'stopped')
  await fails('DaytonaError', () => box.process.executeCommand('true'))
  await box.start()
  assert.equal(box.state, 'started')
  assert.equal(String(await box.fs.downloadFile('kept.txt')), 'kept')
  await box.stop()
  await box.archive()
  await until('archived', async () => (await t.client.get(box.id)).state === 'archived')
  await box.recover()
  assert.equal(box.state, 'started')
  assert.equal(String(await box.fs.downloadFile('kept.txt')), 'kept')
})

test('delete is final, in every state', async (t) => {
  const box = await t.create({ name: fresh('gone') })
  await box.stop()
  await t.client.delete(box)
  await fails(NotFound, () => t.client.get(box.id), 404)
  await fails(NotFound, () => t.client.get(box.name), 404)
  await fails(NotFound, () => box.process.executeCommand('true'), 404)
})

test('delete that waits', async (t) => {
  const box = await t.create()
  await box.delete(60, true)
  await fails(NotFound, () => t.client.get(box.id), 404)
}, { old: false })

test('an ephemeral one ends when it is stopped', async (t) => {
  const box = await t.create({ ephemeral: true })
  assert.equal(box.autoDeleteInterval, 0)
  await box.stop()
  await until('gone', () => t.client.get(box.id).then(() => false, (e) => e instanceof sdk.DaytonaNotFoundError))
})

test('labels, intervals and flags can be changed', async (t) => {
  const box = await t.create()
  await box.setLabels({ new: 'y' })
  await box.setAutostopInterval(33)
  await box.setAutoArchiveInterval(44)
  await box.setAutoDeleteInterval(55)
  await box.refreshData()
  assert.deepEqual({ ...box.labels }, { new: 'y' })
  assert.deepEqual([box.autoStopInterval, box.autoArchiveInterval, box.autoDeleteInterval], [33, 44, 55])
  await fails('DaytonaError', () => box.setAutostopInterval(-1))
  await box.refreshActivity()
  if (!isOld) {
    await box.setTtl(90)
    await box.refreshData()
    assert.ok(box.autoDestroyAt)
  }
})

test('list with labels finds them, page by page', async (t) => {
  const tag = fresh('tag')
  const boxes = []
  for (let i = 0; i < 3; i++) boxes.push(await t.create({ labels: { tag, n: String(i) }, language: 'python' }))
  const want = boxes.map((b) => b.id).sort()
  assert.deepEqual((await t.items({ tag })).map((b) => b.id).sort(), want)
  assert.deepEqual((await t.items({ tag, n: '1' })).map((b) => b.id), [boxes[1].id])
  if (isOld) {
    const page = await t.client.list({ tag }, 2, 2)
    assert.deepEqual([page.items.length, page.total, page.page, page.totalPages], [1, 3, 2, 2])
    assert.equal((await t.client.findOne({ labels: { tag, n: '2' } })).id, boxes[2].id)
  } else {
    assert.deepEqual((await t.items({ tag }, { limit: 1 })).map((b) => b.id).sort(), want)
    await boxes[0].stop()
    assert.deepEqual((await t.items({ tag }, { states: ['stopped'] })).map((b) => b.id), [boxes[0].id])
    assert.deepEqual(await t.items({ tag }, { createdAtBefore: new Date(0) }), [])
    assert.equal((await t.items({ tag }, { createdAtAfter: new Date(0), sort: 'createdAt', order: 'asc' }))[0].id, boxes[0].id)
    const listed = (await t.items({ tag, n: '2' }))[0]
    assert.equal((await listed.process.executeCommand('echo listed')).result, 'listed\n')
  }
})

test('volumes: made on demand, listed, shared, with sub-paths, deleted', async (t) => {
  const name = fresh('vol')
  const volume = await t.client.volume.get(name, true)
  await until('ready', async () => (await t.client.volume.get(name)).state === 'ready')
  assert.ok((await t.client.volume.list()).some((v) => v.id === volume.id))
  const a = await t.create({ volumes: [{ volumeId: volume.id, mountPath: '/home/daytona/shared' }] })
  const b = await t.create({ volumes: [{ volumeId: volume.id, mountPath: '/mnt/part', subpath: 'users/anna' }] })
  await b.fs.uploadFile(Buffer.from('from b'), '/mnt/part/b.txt')
  assert.equal(String(await a.fs.downloadFile('/home/daytona/shared/users/anna/b.txt')), 'from b')
  await fails('DaytonaConflictError', () => t.client.volume.delete(volume), 409)
  await a.delete()
  await b.delete()
  await t.client.volume.delete(volume)
  await fails(NotFound, () => t.client.volume.get(name), 404)
})

test('errors have the class and the status that the SDK knows', async (t) => {
  await fails(NotFound, () => t.client.get('no-such-name'), 404)
  const stranger = new sdk.Daytona({ apiKey: 'dtn_' + '0'.repeat(64) })
  await fails('DaytonaAuthenticationError', () => stranger.get('x'), 401)
  await stranger[Symbol.asyncDispose]?.()
  await fails(Bad, async () => t.client.create({ volumes: [{ volumeId: 'no-such', mountPath: '/data' }] }), 400)
})

test('work dir, home dir, metrics', async (t) => {
  const box = await t.box()
  assert.equal(await box.getWorkDir(), '/home/daytona')
  assert.equal(await box.getUserHomeDir(), '/home/daytona')
  if (box.getMetricsLatest) assert.ok((await box.getMetricsLatest()).memTotal > 0)
})
