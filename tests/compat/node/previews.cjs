'use strict'
// Previews: a server started in a session, asked from outside by the link the SDK gives.
const { test, fresh, until, assert } = require('./tap.cjs')

test('preview: http.server in a session, fetched with the link\'s token', async (t) => {
  const box = await t.box()
  const session = fresh('web')
  await box.fs.uploadFile(Buffer.from('hello from inside'), 'site/index.html')
  const link = await box.getPreviewLink(3000)
  const get = (path, headers = { 'x-daytona-preview-token': link.token }) => fetch(link.url + path, { headers })
  assert.equal((await get('/')).status, 502) // nothing there yet, and said so at once
  await box.process.createSession(session)
  await box.process.executeSessionCommand(session, { command: 'cd site && python3 -m http.server 3000', runAsync: true })
  await until('a server', async () => (await get('/')).status === 200)
  assert.equal(await (await get('/index.html?x=1')).text(), 'hello from inside')
  assert.equal((await get('/nothing')).status, 404)
  assert.equal((await get('/', {})).status, 401)
  const signed = await box.getSignedPreviewUrl(3000, 60)
  assert.deepEqual([signed.sandboxId, signed.port], [box.id, 3000])
  assert.equal((await fetch(signed.url)).status, 200)
  await box.expireSignedPreviewUrl(3000, signed.token)
  assert.equal((await fetch(signed.url)).status, 401)
  await box.process.deleteSession(session)
})
