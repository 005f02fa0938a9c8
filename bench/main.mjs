// Runs the benchmark: installs the peers under bench/node_modules, and starts the driver on the Node that those peers need. It needs
// no installed packages itself. README.md explains the options.
//
//   npm run bench -- [--only NAME,...] [--systems NAME,...] [--table] [--before FOLDER] [--sustained] [--quick] [--scale N] [--list]
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const bench = dirname(fileURLToPath(import.meta.url))
const modules = join(bench, 'node_modules')
const nodeBinary = join(modules, 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node')

installPeers()
const driver = spawn(nodeBinary, [join(bench, 'harness', 'driver.mjs'), ...process.argv.slice(2)], {
  stdio: 'inherit',
})
// Ctrl-C in a terminal reaches the driver by itself; a signal to this process alone is passed on.
process.on('SIGINT', () => {})
process.on('SIGTERM', () => driver.kill('SIGTERM'))
driver.on('exit', (code) => process.exit(code ?? 1))

/** `npm ci`, skipped while the installed tree still matches the lock file. */
function installPeers() {
  const wanted = createHash('sha256')
    .update(readFileSync(join(bench, 'package-lock.json')))
    .digest('hex')
  const stamp = join(modules, '.installed-lock')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted && existsSync(nodeBinary)) return

  console.error('bench: installing the peers in bench/node_modules ...')
  // The root's `engine-strict` reaches nested npm calls through the environment, and the peers ask for
  // a newer Node than the one that runs npm here; the newer one is part of what is installed.
  run('npm', ['ci', '--engine-strict=false', '--no-audit', '--no-fund', '--loglevel=error'], bench)
  // The package `node` fetches its binary in an install script, which npm may be told to skip.
  if (!existsSync(nodeBinary)) run(process.execPath, ['installArchSpecificPackage'], join(modules, 'node'))
  writeFileSync(stamp, wanted)
}

function run(command, args, cwd) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: ['ignore', 2, 2] })
  if (status !== 0) {
    throw new Error(`bench: "${command} ${args.join(' ')}" failed in ${cwd}: ${error?.message ?? status}`)
  }
}
