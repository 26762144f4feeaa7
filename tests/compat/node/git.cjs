'use strict'
// Git, with a repository that git's own HTTP backend serves inside the sandbox.
const { test, fails, until, assert } = require('./tap.cjs')
const fs = require('node:fs')
const path = require('node:path')
const SERVER = path.join(__dirname, '..', '..', 'server', 'git_server.py')

const SEED = `
set -e
rm -rf ~/srv ~/seed && mkdir -p ~/srv/repos && git init -q --bare -b main ~/srv/repos/origin.git
git -C ~/srv/repos/origin.git config http.receivepack true
git init -q -b main ~/seed && cd ~/seed
git config user.name Seed && git config user.email seed@example.com
echo one > one.txt && git add . && git commit -q -m first
git push -q ~/srv/repos/origin.git main
`

test('git: clone, status, add, commit, push, pull, branches, errors', async (t) => {
  const box = await t.box()
  const git = box.git
  await t.sh(SEED)
  await box.fs.uploadFile(SERVER, 'srv/git_server.py')
  await t.sh('nohup python3 ~/srv/git_server.py >~/srv/log 2>&1 &')
  const port = await until('the git server is up', async () => (await t.sh('cat ~/srv/port 2>/dev/null || true')).trim())
  const URL = `http://127.0.0.1:${port}/open/origin.git`
  await t.sh('rm -rf w1 w2')
  await git.clone(URL, 'w1')
  await git.clone(URL, 'w2', 'main')
  assert.equal((await git.status('w1')).currentBranch, 'main')
  await box.fs.uploadFile(Buffer.from('new'), 'w1/new.txt')
  assert.deepEqual((await git.status('w1')).fileStatus.map((f) => [f.name, f.worktree]), [['new.txt', 'Untracked']])
  await git.add('w1', ['.'])
  const c = await git.commit('w1', 'second', 'Anna', 'anna@example.com')
  assert.match(c.sha, /^[0-9a-f]{40}$/)
  await git.push('w1')
  await git.pull('w2')
  assert.equal(await t.sh('cat w2/new.txt'), 'new')
  await git.createBranch('w1', 'topic')
  assert.ok((await git.branches('w1')).branches.includes('topic'))
  await git.checkoutBranch('w1', 'main')
  await git.deleteBranch('w1', 'topic')
  assert.ok(!(await git.branches('w1')).branches.includes('topic'))
  await git.commit('w2', 'other', 'B', 'b@example.com', true)
  await git.push('w2')
  await git.commit('w1', 'mine', 'A', 'a@example.com', true)
  await fails(['DaytonaGitPushRejectedError'], () => git.push('w1'), 409)
  await fails('DaytonaNotFoundError', () => git.status('no-such-repo'), 404)
  await fails('DaytonaNotFoundError', () => git.checkoutBranch('w1', 'no-such'), 404)
  await fails(['DaytonaGitTransportFailedError'], () => git.clone('http://127.0.0.1:9/x.git', 'w9'), 502)
})
