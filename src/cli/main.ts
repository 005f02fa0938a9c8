#!/usr/bin/env node
// Nothing is imported here: an older Node would fail on the first module it cannot read, with a stack and no cure.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 20 || (major === 20 && minor < 19)) {
  process.stderr.write(
    `error: Sluice needs Node 20.19 or newer, and this is Node ${process.versions.node} (${process.execPath})\n` +
      'hint:  install a newer one from https://nodejs.org, or with: nvm install 22\n',
  )
  process.exit(3)
}
await import('./start.ts')

export {}
