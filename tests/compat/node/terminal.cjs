'use strict'
// Terminals: a shell with a window size, until it leaves or is killed.
const { test, fresh, assert } = require('./tap.cjs')

test('terminal: size, variables, input, exit status, kill', async (t) => {
  const p = (await t.box()).process
  const id = fresh('pty')
  let text = ''
  const onData = (d) => { text += Buffer.from(d).toString() }
  const terminal = await p.createPty({ id, cwd: '/tmp', envs: { WORD: 'zebra' }, cols: 111, rows: 33, onData })
  await terminal.waitForConnection()
  const info = await p.getPtySessionInfo(id)
  assert.deepEqual([info.cols, info.rows], [111, 33])
  assert.ok((await p.listPtySessions()).some((s) => s.id === id))
  await terminal.resize(70, 20)
  await terminal.sendInput('stty size; echo $WORD-$PWD; exit 7\n')
  const r = await terminal.wait()
  assert.equal(r.exitCode, 7)
  assert.match(text, /20 70/)
  assert.match(text, /zebra-\/tmp/)
  const other = await p.createPty({ id: fresh('pty'), onData: () => {} })
  await other.waitForConnection()
  await other.kill()
  assert.notEqual((await other.wait()).exitCode, 0)
})
