'use strict'
// Files: every operation of fs.
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const crypto = require('node:crypto')
const { test, isOld, fails, assert } = require('./tap.cjs')
const NotFound = ['DaytonaNotFoundError']

test('files: up and down: empty, with blanks, with Unicode, in new folders, binary', async (t) => {
  const f = (await t.box()).fs
  const data = crypto.randomBytes(100000)
  for (const name of ['plain', 'with blank.txt', 'deep/er/x.bin', '/tmp/quo\'te"d', 'a+b&c=d%20', 'žluť 漢字.txt']) {
    await f.uploadFile(data, name)
    assert.ok(data.equals(await f.downloadFile(name)), name)
  }
  await f.uploadFile(Buffer.alloc(0), 'empty')
  assert.equal((await f.downloadFile('empty')).length, 0)
})

test('files: local files and many in one request', async (t) => {
  const f = (await t.box()).fs
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'csn-compat-'))
  const data = crypto.randomBytes(8 << 20)
  fs.writeFileSync(path.join(dir, 'up'), data)
  await f.uploadFile(path.join(dir, 'up'), 'big.bin')
  await f.downloadFile('big.bin', path.join(dir, 'down'))
  assert.ok(data.equals(fs.readFileSync(path.join(dir, 'down'))))
  await f.uploadFiles([...Array(20).keys()].map((i) => ({ source: Buffer.from(`${i}`), destination: `bulk/${i}` })))
  const got = await f.downloadFiles([...Array(20).keys()].map((i) => ({ source: `bulk/${i}` })).concat([{ source: 'bulk/none' }]))
  assert.deepEqual(got.slice(0, 20).map((r) => String(r.result)), [...Array(20).keys()].map(String))
  assert.ok(got[20].error)
  fs.rmSync(dir, { recursive: true })
})

test('files: streams', async (t) => {
  const f = (await t.box()).fs
  const data = crypto.randomBytes(3 << 20)
  await f.uploadFileStream(data, 'streamed')
  const parts = []
  for await (const p of await f.downloadFileStream('streamed')) parts.push(p)
  assert.ok(data.equals(Buffer.concat(parts)))
}, { old: false })

test('files: what is missing is not found', async (t) => {
  const f = (await t.box()).fs
  await fails(isOld ? 'DaytonaError' : ['DaytonaFileNotFoundError'], () => f.downloadFile('no/such/file'))
  await fails(NotFound, () => f.deleteFile('no-such'), 404)
  await fails(NotFound, () => f.getFileDetails('no-such'), 404)
  await fails(NotFound, () => f.listFiles('no-such'), 404)
})

test('files: list, details, folder, move, permissions, delete', async (t) => {
  const f = (await t.box()).fs
  await t.sh('rm -rf d e')
  await f.createFolder('d/in', '750')
  await f.uploadFile(Buffer.from('12345'), 'd/a')
  const got = Object.fromEntries((await f.listFiles('d')).map((x) => [x.name, x]))
  assert.deepEqual(Object.keys(got).sort(), ['a', 'in'])
  assert.deepEqual([got.a.size, got.a.isDir, got.in.isDir], [5, false, true])
  await f.setFilePermissions('d/a', { mode: '600' })
  const info = await f.getFileDetails('d/a')
  assert.deepEqual([info.mode, info.permissions, info.owner], ['-rw-------', '0600', '1000'])
  await f.moveFiles('d/a', 'd/b')
  await f.uploadFile(Buffer.from('x'), 'd/c')
  await fails('DaytonaConflictError', () => f.moveFiles('d/b', 'd/c'), 409)
  await f.deleteFile('d/b')
  await fails('DaytonaBadRequestError', () => f.deleteFile('d'), 400)
  await f.deleteFile('d', true)
  assert.ok(!(await f.listFiles('.')).some((x) => x.name === 'd'))
})

test('files: find, search, replace', async (t) => {
  const f = (await t.box()).fs
  await t.sh("rm -rf f; mkdir -p f/sub; printf 'one\\ntwo (x)\\n' > f/a.txt; echo 'two (x)' > f/sub/b.md")
  const found = (await f.findFiles('f', 'two (x)')).map((m) => [m.file.split('f/').pop(), m.line, m.content]).sort()
  assert.deepEqual(found, [['a.txt', 2, 'two (x)'], ['sub/b.md', 1, 'two (x)']])
  assert.deepEqual((await f.searchFiles('f', '*.md')).files.map((x) => x.split('f/').pop()), ['sub/b.md'])
  const r = await f.replaceInFiles(['f/a.txt', 'f/none'], 'two (x)', '2')
  assert.deepEqual(r.map((x) => x.success), [true, false])
  assert.equal(await t.sh('cat f/a.txt'), 'one\n2\n')
})
