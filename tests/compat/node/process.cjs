'use strict'
// Commands, programs, sessions and the interpreter.
const { sdk, isOld, test, Skip, fresh, fails, until, assert } = require('./tap.cjs')
const NotFound = 'DaytonaNotFoundError', Gone = 'DaytonaGoneError'

test('exec: output, exit code, directory, environment', async (t) => {
  const p = (await t.box()).process
  let r = await p.executeCommand('echo out; echo err >&2; exit 3')
  assert.deepEqual([r.exitCode, r.result], [3, 'out\nerr\n'])
  assert.equal((await p.executeCommand('pwd', '/tmp')).result, '/tmp\n')
  assert.equal((await p.executeCommand('echo "$A-$FROM_CREATE"', undefined, { A: 'x' })).result, 'x-a b\n')
  if (!isOld) { // 0.150 breaks such values itself
    const hard = 'it\'s "quoted" $HOME `x` \\'
    assert.equal((await p.executeCommand('printf %s "$Q"', undefined, { Q: hard })).result, hard)
    await fails(['DaytonaBadRequestError'], () => p.executeCommand('  '), 400)
  }
  assert.equal((await p.executeCommand("echo 'žluťoučký 🐎'")).result, 'žluťoučký 🐎\n')
  r = await p.executeCommand("printf 'a\\377b\\n'")
  assert.match(r.result, /^a\ufffd/)
  assert.equal((await p.executeCommand('seq 200000 | tail -n 1')).result, '200000\n')
  const big = 'x'.repeat(isOld ? 60000 : 400000) // 0.150 makes one argument of it, encoded
  assert.equal((await p.executeCommand(`printf %s '${big}' | wc -c`)).result.trim(), String(big.length))
})

test('exec: a command that is late is killed', async (t) => {
  const p = (await t.box()).process
  const began = Date.now()
  await fails(isOld ? 'DaytonaError' : 'DaytonaTimeoutError', () => p.executeCommand('sleep 300', undefined, undefined, 1), 408)
  assert.ok(Date.now() - began < 10000)
  assert.equal((await p.executeCommand('echo alive')).result, 'alive\n')
})

test('exec: a background child outlives its command; many commands at once', async (t) => {
  const box = await t.box()
  await t.sh("rm -f go; nohup sh -c 'while [ ! -e go ]; do sleep 0.05; done; echo done > bg.txt' >bg.log 2>&1 &")
  await t.sh('touch go')
  await until('the child wrote', async () => (await box.process.executeCommand('test -s bg.txt')).exitCode === 0)
  const all = await Promise.all([...Array(12).keys()].map((i) => box.process.executeCommand(`echo ${i}`)))
  assert.deepEqual(all.map((r) => r.result), [...Array(12).keys()].map((i) => `${i}\n`))
})

test('codeRun: python', async (t) => {
  const p = (await t.box()).process
  let r = await p.codeRun('import sys\nprint(sys.argv[1:])\nsys.exit(4)', { argv: ['a', 'b'] })
  assert.deepEqual([r.exitCode, r.result], [4, "['a', 'b']\n"])
  r = await p.codeRun("import os\nprint(os.environ['E'])", { env: { E: 'e' } })
  assert.equal(r.result, 'e\n')
  r = await p.codeRun("raise ValueError('wrong')")
  assert.equal(r.exitCode, 1)
  assert.match(r.result, /ValueError: wrong/)
  await fails(isOld ? 'DaytonaError' : 'DaytonaTimeoutError', () => p.codeRun('import time; time.sleep(300)', undefined, 1), 408)
})

test('codeRun: javascript', async (t) => {
  const js = await t.create({ language: 'javascript' })
  const r = await js.process.codeRun("console.log(process.argv.slice(1).join('|'), 6 * 7)", { argv: ['x', 'z'] })
  assert.deepEqual([r.exitCode, r.result], [0, 'x|z 42\n'])
})

test('codeRun: typescript', async (t) => {
  const ts = await t.create({ language: 'typescript' })
  if (isOld && (await ts.process.executeCommand('command -v npx && npx --no-install ts-node --version')).exitCode)
    throw new Skip('net: this SDK runs npx ts-node, which npx would fetch from a registry')
  const r = await ts.process.codeRun('interface P { x: number }\nconst p: P = { x: 41 }\nconsole.log(p.x + 1)')
  assert.deepEqual([r.exitCode, r.result], [0, '42\n'])
})

async function session(t) {
  const box = await t.box()
  const s = fresh('s')
  await box.process.createSession(s)
  return [box.process, s]
}

test('session: state stays, stdout and stderr are told apart', async (t) => {
  const [p, s] = await session(t)
  await p.executeSessionCommand(s, { command: "cd /tmp; export V='a b'" })
  const r = await p.executeSessionCommand(s, { command: 'pwd; echo $V; echo err >&2; (exit 7)' })
  assert.deepEqual([r.exitCode, r.stdout, r.stderr], [7, '/tmp\na b\n', 'err\n'])
  const c = await p.getSessionCommand(s, r.cmdId)
  assert.deepEqual([c.id, c.exitCode], [r.cmdId, 7])
  const logs = await p.getSessionCommandLogs(s, r.cmdId)
  assert.deepEqual([logs.stdout, logs.stderr], [r.stdout, r.stderr])
  assert.equal((await p.getSession(s)).commands.length, 2)
  assert.ok((await p.listSessions()).some((x) => x.sessionId === s))
  await fails('DaytonaConflictError', () => p.createSession(s), 409)
  await p.deleteSession(s)
  await fails(NotFound, () => p.getSession(s), 404)
  await fails(NotFound, () => p.deleteSession(s), 404)
  await fails(NotFound, () => p.executeSessionCommand(s, { command: 'true' }), 404)
})

test('session: asynchronous, with input, followed while it runs', async (t) => {
  const [p, s] = await session(t)
  const r = await p.executeSessionCommand(s, { command: 'echo ready; read -r x; echo "got $x"; echo "e $x" >&2', runAsync: true })
  assert.ok(r.cmdId)
  let out = '', err = ''
  const following = p.getSessionCommandLogs(s, r.cmdId, (c) => { out += c }, (c) => { err += c })
  await until('ready was followed', () => out.includes('ready'))
  await p.sendSessionCommandInput(s, r.cmdId, 'one')
  await following
  assert.match(out, /got one/)
  assert.equal(err.trim(), 'e one')
  await until('it has ended', async () => (await p.getSessionCommand(s, r.cmdId)).exitCode === 0)
  await fails(Gone, () => p.sendSessionCommandInput(s, r.cmdId, 'x'), 410)
  const logs = await p.getSessionCommandLogs(s, r.cmdId)
  assert.equal(logs.stdout.trimEnd(), out.trimEnd())
  await p.deleteSession(s)
})

test('session: delete kills what still runs, followers see the end', async (t) => {
  const [p, s] = await session(t)
  const r = await p.executeSessionCommand(s, { command: 'echo on; sleep 300', runAsync: true })
  let out = ''
  const following = p.getSessionCommandLogs(s, r.cmdId, (c) => { out += c }, () => {})
  await until('it runs', () => out.includes('on'))
  await p.deleteSession(s)
  await following
})

test('interpreter: state, streams, errors, contexts, time limit', async (t) => {
  const i = (await t.box()).codeInterpreter
  await i.runCode('x = 41')
  let seen = ''
  let r = await i.runCode("import sys\nprint(x + 1); print('oops', file=sys.stderr)", { onStdout: (m) => { seen += m.output } })
  assert.deepEqual([r.stdout, r.stderr, seen], ['42\n', 'oops\n', '42\n'])
  r = await i.runCode("raise ValueError('wrong')")
  assert.deepEqual([r.error.name, r.error.value], ['ValueError', 'wrong'])
  r = await i.runCode("import os; print(os.environ['ONCE'])", { envs: { ONCE: 'yes' } })
  assert.equal(r.stdout, 'yes\n')
  const c = await i.createContext('/tmp')
  assert.deepEqual([c.cwd, c.language], ['/tmp', 'python'])
  assert.equal((await i.runCode('print(x)', { context: c })).error.name, 'NameError')
  assert.deepEqual((await i.listContexts()).map((x) => x.id), [c.id])
  await fails('DaytonaTimeoutError', () => i.runCode('import time; time.sleep(300)', { context: c, timeout: 1 }))
  assert.equal((await i.runCode("print('again')", { context: c })).stdout, 'again\n')
  await i.deleteContext(c)
  await fails('DaytonaError', () => i.runCode('1', { context: c }))
  assert.equal((await i.runCode("print('y' * 500000)")).stdout.length, 500001)
})
