import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { until } from '../support/until.ts'

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const server = useServer(useDatabase())

const PROGRAM = `
  import { writeFileSync } from 'node:fs'
  writeFileSync(process.env.SLUICE_RESULT, JSON.stringify(Object.keys(process.env).concat(Object.values(process.env))))
`

async function start(args: readonly string[], env: Readonly<Record<string, string>>) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-remote-'))
  await writeFile(join(folder, 'environment.mjs'), PROGRAM)
  await writeFile(
    join(folder, 'sluice.yaml'),
    `tasks: { environment: { exec: ['${process.execPath}', ./environment.mjs] } }\n`,
  )
  const { DATABASE_URL: _, ...rest } = process.env
  const worker: ChildProcess = spawn(process.execPath, [MAIN, 'worker', ...args], {
    cwd: folder,
    env: { ...rest, ...env },
    stdio: ['ignore', 'inherit', 'pipe'],
  })
  let log = ''
  worker.stderr!.setEncoding('utf8').on('data', (text: string) => {
    log += text
  })
  onTestFinished(async () => {
    worker.kill('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  })
  await until(() => log.includes('ready to take jobs'), 'the worker to be ready')
  return { worker, folder, log: () => log }
}

test.each(['in the environment', 'on the command line'])(
  'sluice worker --server works without a database; the key %s stays with it',
  {
    timeout: 240_000,
  },
  async (where) => {
    const key = await server.keyOf('worker')
    const { worker, folder, log } =
      where === 'in the environment'
        ? await start([], { SLUICE_SERVER: server.url, SLUICE_KEY: key })
        : await start(['--server', server.url, '--api-key', key], {})
    expect(readFileSync(`/proc/${worker.pid}/cmdline`, 'utf8')).not.toContain(key)
    const job = await server.app.submit('environment', null)
    const environment = (await job.result({ timeout: '30s' })) as string[]
    expect(environment).toContain('SLUICE_JOB_ID')
    expect(environment.join()).not.toContain(key)
    const exited = once(worker, 'exit')
    worker.kill('SIGTERM')
    expect(await exited).toEqual([0, null])
    expect(log()).not.toContain(key)
    expect(existsSync(join(folder, '.sluice'))).toBe(false)
  },
)

test('a key that does not do is refused at the start, and not repeated', { timeout: 240_000 }, async () => {
  const { DATABASE_URL: _, ...rest } = process.env
  const folder = await mkdtemp(join(tmpdir(), 'sluice-remote-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await writeFile(join(folder, 'sluice.yaml'), 'tasks: { nothing: { exec: [/bin/true] } }\n')
  const secret = 'slk_this-is-no-key-that-anybody-has-ever-made-000'
  const worker = spawn(process.execPath, [MAIN, 'worker'], {
    cwd: folder,
    env: { ...rest, SLUICE_SERVER: server.url, SLUICE_KEY: secret },
    stdio: ['ignore', 'inherit', 'pipe'],
  })
  let log = ''
  worker.stderr.setEncoding('utf8').on('data', (text: string) => {
    log += text
  })
  const [code] = (await once(worker, 'close')) as [number]
  expect(code).not.toBe(0)
  expect(log).toContain('the key or session is unknown, expired or revoked')
  expect(log).not.toContain(secret)
})
