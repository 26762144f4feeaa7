'use strict'
// Tests of the TypeScript SDK. `sdk` is the package as a program would require it; a test gets a Run.
const assert = require('node:assert/strict')
const crypto = require('node:crypto')
const fs = require('node:fs')
const path = require('node:path')

const dir = process.argv[2]
const name = fs.existsSync(path.join(dir, 'node_modules/@daytona/sdk/package.json')) && path.basename(dir).startsWith('ts-daytona-')
  ? '@daytona/sdk' : '@daytonaio/sdk'
const sdk = require(require.resolve(name, { paths: [dir] }))
const version = JSON.parse(fs.readFileSync(path.join(dir, 'node_modules', name, 'package.json'))).version.split('.').map(Number)
const isOld = version[0] === 0 && version[1] < 180

const tests = []
class Skip extends Error {}

// test(NAME, FUNCTION, { seconds, old: false: not for 0.150 })
function test(label, fn, options = {}) {
  tests.push({ label, fn, seconds: 60, old: true, ...options })
}

const fresh = (prefix) => `${prefix}-${crypto.randomUUID().slice(0, 8)}`

// The call fails with this class, the first of those this SDK has; before 0.163 there were two classes.
async function fails(names, call, status) {
  const cls = [].concat(names, 'DaytonaError').map((n) => sdk[n]).find(Boolean)
  let error
  try {
    await call()
  } catch (e) {
    error = e
  }
  assert.ok(error, `nothing was thrown, wanted ${cls.name}`)
  assert.ok(error instanceof cls, `${error.constructor.name}: ${error.message}, wanted ${cls.name}`)
  if (status && error.statusCode !== undefined) assert.equal(error.statusCode, status, error.message)
  return error
}

async function until(what, probe, seconds = 20) {
  const end = Date.now() + seconds * 1000
  for (;;) {
    const value = await probe()
    if (value) return value
    if (Date.now() > end) throw new Error(`${seconds} s passed without: ${what}`)
    await new Promise((r) => setTimeout(r, 20))
  }
}

class Run {
  constructor() {
    this.client = new sdk.Daytona()
    this.made = []
  }
  async box() {
    this.shared ??= await this.client.create({ language: 'python', envVars: { FROM_CREATE: 'a b' }, autoStopInterval: 0 })
    return this.shared
  }
  async create(params) {
    const box = await this.client.create(params)
    this.made.push(box)
    return box
  }
  async sh(command) {
    const r = await (await this.box()).process.executeCommand(command)
    assert.equal(r.exitCode, 0, `exit of ${command.slice(0, 80)}: ${r.result}`)
    return r.result
  }
  async items(labels, query = {}) {
    if (isOld) return (await this.client.list(labels, query.page, query.limit)).items
    const all = []
    for await (const box of this.client.list({ labels, ...query })) all.push(box)
    return all
  }
  async tidy() {
    for (const box of this.made.splice(0)) await box.delete().catch(() => {})
  }
}

function withDeadline(promise, seconds) {
  let timer
  const late = new Promise((_, no) => { timer = setTimeout(() => no(new Error(`late: ${seconds} s`)), seconds * 1000) })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

async function main() {
  const run = new Run()
  const patterns = process.argv.slice(3)
  let n = 0, failed = 0
  for (const t of tests) {
    if ((isOld && !t.old) || (patterns.length && !patterns.some((p) => t.label.includes(p)))) continue
    n++
    try {
      await withDeadline(t.fn(run), t.seconds)
      await run.tidy()
      console.log(`ok ${n} - ${t.label}`)
    } catch (e) {
      if (e instanceof Skip) {
        console.log(`ok ${n} - ${t.label} # SKIP ${e.message}`)
        continue
      }
      failed++
      console.log(String(e.stack ?? e).split('\n').slice(0, 14).map((l) => `# ${l}`).join('\n'))
      console.log(`not ok ${n} - ${t.label}`)
    }
  }
  if (run.shared) await run.shared.delete().catch(() => {})
  console.log(`1..${n}`)
  return failed
}

module.exports = { sdk, name, dir, version, isOld, test, Skip, fresh, fails, until, main, assert }
