'use strict'
// node main.cjs SDK-DIRECTORY [PATTERN…]: see tap.cjs. Run by tests/compat/run.
require('./control.cjs')
require('./previews.cjs')
require('./process.cjs')
require('./terminal.cjs')
require('./files.cjs')
require('./git.cjs')
require('./exit.cjs')
require('./tap.cjs').main().then((failed) => {
  process.exitCode = failed ? 1 : 0
  if (failed) process.exit() // a client that hangs must not hide what failed
})
