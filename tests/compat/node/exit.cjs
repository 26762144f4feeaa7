'use strict'
// A program that leaves its sandbox behind still ends when its work is done: the event channel must not hold it.
const { spawn } = require('node:child_process')
const { test, name, dir, assert } = require('./tap.cjs')

const PROGRAM = `
const { Daytona } = require(require.resolve(${JSON.stringify(name)}, { paths: [${JSON.stringify(dir)}] }))
new Daytona().create().then(async (box) => {
  const r = await box.process.executeCommand('echo done')
  console.log(box.id, r.result.trim(), Date.now())
})
`

test('a program ends promptly with a sandbox still there', async (t) => {
  const child = spawn(process.execPath, ['-e', PROGRAM], { stdio: ['ignore', 'pipe', 'inherit'] })
  let out = ''
  child.stdout.on('data', (d) => { out += d })
  const status = await new Promise((yes, no) => {
    const timer = setTimeout(() => { child.kill('SIGKILL'); no(new Error(`it still runs after 30 s: ${out}`)) }, 30000)
    child.on('exit', (code) => { clearTimeout(timer); yes(code) })
  })
  const ended = Date.now()
  const [id, word, at] = out.trim().split(' ')
  assert.deepEqual([status, word], [0, 'done'])
  assert.ok(ended - Number(at) < 5000, `it took ${ended - Number(at)} ms to end`)
  await (await t.client.get(id)).delete()
})
