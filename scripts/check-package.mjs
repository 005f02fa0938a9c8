// Packs what `npm publish` would publish, and checks it with publint and attw (arethetypeswrong) as a user's tools see it: entry
// points and types. npx fetches both from the registry, because together they bring more packages than Sluice has.
//
//   npm run check:package
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
const folder = mkdtempSync(join(tmpdir(), 'sluice-package-'))
try {
  run('npm', 'pack', '--ignore-scripts', '--pack-destination', folder)
  const [file] = readdirSync(folder)
  run('npx', '--yes', 'publint@0.3.25', join(folder, file), '--strict')
  // CommonJS programs load Sluice with import(), which needs no types of its own.
  run('npx', '--yes', '@arethetypeswrong/cli@0.18.5', join(folder, file), '--profile', 'esm-only')
} finally {
  rmSync(folder, { recursive: true, force: true })
}

function run(program, ...args) {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd: root, encoding: 'utf8' })
  if (status === 0) return
  console.error(`${stdout}${stderr}`.trim())
  throw new Error(`${program} ${args.join(' ')} failed`)
}
