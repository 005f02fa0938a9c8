import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { openSluice } from '../../src/app/open.ts'
import type { Sluice } from '../../src/index.ts'
import { createExecExecutor } from '../../src/worker/exec.ts'
import { canEnter, findExecUser } from '../../src/worker/exec-user.ts'
import { Workdirs } from '../../src/worker/workdir.ts'
import { MAIN } from '../cli/cli.ts'
import { isRoot, makeFolder, removeFolder } from '../support/embedded.ts'
import { expectGone } from '../support/processes.ts'
import { RecordedAttempt } from '../support/recorded-attempt.ts'
import { until } from '../support/until.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const HOSTILE = fileURLToPath(new URL('../support/programs/hostile.mjs', import.meta.url))
/** An account without an entry anywhere: no file of this machine belongs to it. */
const USER = { uid: 54_321, gid: 54_322 }
const AS = `${USER.uid}:${USER.gid}`
const SECRET = 'a-secret-of-the-worker'

interface Result {
  readonly who: { uid: number; gid: number; groups: number[]; home: string }
  readonly outcome: Readonly<Record<string, string>>
  readonly workdir: string
}

/** Only root can start programs as another user, and Node must not lie where only root can enter. */
const skippedBecause = !isRoot
  ? 'these tests need root, to start programs as another user'
  : spawnSync(process.execPath, ['--version'], { ...USER, cwd: '/' }).status === 0
    ? undefined
    : `user ${AS} cannot run ${process.execPath}: a folder above it is closed to others`
if (skippedBecause !== undefined)
  console.warn(`SKIPPED: the boundary of user: is not tested here: ${skippedBecause}`)
const what = `a program that runs as another user${skippedBecause === undefined ? '' : ` (SKIPPED: ${skippedBecause})`}`

describe.skipIf(skippedBecause !== undefined)(what, () => {
  let folder: string
  let app: Sluice
  let worker: { readonly pid: number; log(): string; kill(signal: NodeJS.Signals): Promise<void> }

  beforeAll(async () => {
    folder = await makeFolder(0o755)
    mkdirSync(join(folder, 'outside'))
    writeFileSync(join(folder, 'outside/file'), 'x')
    mkdirSync(join(folder, 'tmp'))
    copyFileSync(HOSTILE, join(folder, 'hostile.mjs'))
    writeFileSync(
      join(folder, 'stubborn.sh'),
      `#!/bin/sh\ntrap '' TERM\nsleep 1000 &\necho "$(id -u) $$ $!" > ../../../said\necho up\nwhile :; do sleep 1000; done\n`,
      { mode: 0o755 },
    )
    writeFileSync(
      join(folder, 'sluice.yaml'),
      `grace: 200ms
tasks:
  own: { exec: [${process.execPath}, ./hostile.mjs], env: { TOKEN: ${SECRET} }, retry: { attempts: 1 } }
  other: { exec: [${process.execPath}, ./hostile.mjs], user: "${AS}", retry: { attempts: 1 } }
  stubborn: { exec: [./stubborn.sh], user: "${AS}" }
`,
      { mode: 0o600 },
    )
    writeFileSync(join(folder, 'key'), SECRET, { mode: 0o600 })
    app = await openSluice({ dataFolder: join(folder, '.sluice'), publish: false })
    worker = await startWorker()
  })

  afterAll(async () => {
    await worker?.kill('SIGKILL')
    await app?.close()
    await removeFolder(folder)
  })

  async function startWorker() {
    const inherited = openSync(join(folder, 'key'), 'r')
    // With groups and an open file of its own, which must not go on to programs.
    const child = spawn(
      'setpriv',
      ['--groups', '0,4,27', process.execPath, MAIN, 'worker', '--capacity', '4'],
      {
        cwd: folder,
        env: {
          PATH: process.env.PATH,
          TMPDIR: join(folder, 'tmp'),
          HOME: '/root',
          CLOUD_PASSWORD: SECRET,
          SLUICE_KEY: SECRET,
        },
        stdio: ['ignore', 'ignore', 'pipe', ...Array<'ignore'>(97).fill('ignore'), inherited],
      },
    )
    closeSync(inherited)
    let text = ''
    child.stderr!.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
    const exited = once(child, 'exit')
    await until(
      () => text.includes('ready to take jobs') || child.exitCode !== null,
      'the worker to be ready',
    ).catch((error: unknown) => {
      throw new Error(`${String(error)}\nworker: ${text}`)
    })
    expect(text).toContain('ready to take jobs')
    return {
      pid: child.pid!,
      log: () => text,
      async kill(signal: NodeJS.Signals) {
        child.kill(signal)
        await exited
      },
    }
  }

  async function attack(task: string): Promise<Result> {
    const job = await app.submit(task, {
      secret: SECRET,
      config: join(folder, 'sluice.yaml'),
      key: join(folder, 'key'),
      data: join(folder, '.sluice/postgresql'),
      socket: join(folder, '.sluice/run/.s.PGSQL.5432'),
      outside: join(folder, 'outside'),
    })
    return (await job.result()) as Result
  }

  async function stubborn(): Promise<{ id: string; pids: number[] }> {
    const said = join(folder, 'tmp/said')
    writeFileSync(said, '')
    chmodSync(said, 0o666)
    const job = await app.submit('stubborn', null)
    await until(() => readFileSync(said, 'utf8').endsWith('\n'), 'the program to say its numbers').catch(
      async (error: unknown) => {
        const state = await app.getJob(job.id)
        throw new Error(`${String(error)}\njob: ${JSON.stringify(state)}\nworker: ${worker.log()}`)
      },
    )
    // Its output comes by way of the worker, so the worker has put the program under guard by then.
    await until(async () => (await app.readLogs(job.id)).length > 0, 'the output of the program')
    const [user, ...pids] = readFileSync(said, 'utf8').trim().split(' ').map(Number)
    expect(user).toBe(USER.uid)
    return { id: job.id, pids }
  }

  test('reaches nothing of the worker, where one under the user of the worker reaches everything', async () => {
    const own = await attack('own')
    const other = await attack('other')

    // As the guide says of programs under the worker's own user; it also shows that each attack can succeed.
    expect(own.outcome).toEqual(
      Object.fromEntries(Object.keys(other.outcome).map((name) => [name, 'reached'])),
    )
    expect(own.who).toMatchObject({ uid: 0, groups: [0, 4, 27] })
    expect(other.outcome).toEqual({
      'its own environment': 'not there',
      "the worker's environment": 'EACCES',
      "the worker's memory": 'EACCES',
      "the worker's open files": 'EACCES',
      'a file that the worker was started with': 'not there',
      "the worker's process": 'EPERM',
      'the config file': 'EACCES',
      'a key file': 'EACCES',
      'the data of the database': 'EACCES',
      'workdirs of others': 'EACCES',
      'the user root': 'EPERM',
      'the socket of the database': 'EACCES',
    })
    expect(other.who).toEqual({ ...USER, groups: [USER.gid], home: '/nonexistent' })
  })

  test('leaves no workdir, and nothing outside is removed with it', async () => {
    const { workdir } = await attack('other')

    await until(() => readdirSync(dirname(workdir)).length === 0, 'the workdir to be removed')
    expect(statSync(dirname(workdir)).uid).toBe(0)
    expect(existsSync(join(folder, 'outside/file'))).toBe(true)
  })

  test('is killed with its whole group when its job is cancelled', async () => {
    const { id, pids } = await stubborn()

    await app.cancel(id)

    await expectGone(...pids)
  })

  test('is killed with its group when the worker dies, and the next worker removes what it left', async () => {
    const { pids } = await stubborn()
    const root = join(folder, 'tmp', `sluice-root-as-${USER.uid}`)
    const left = readdirSync(root)

    await worker.kill('SIGKILL')
    await expectGone(...pids)
    worker = await startWorker()

    expect(left).toHaveLength(1)
    expect(readdirSync(root)).not.toContain(left[0])
    expect((await attack('other')).who.uid).toBe(USER.uid)
  })

  test.each([
    ['who is unknown', () => 'nobody-of-that-name', 'this machine has no such user'],
    ['who is root', () => 'root', 'which has the rights of root'],
    ['in the group of root', () => '54321:0', 'which has the rights of root'],
    [
      'who runs the embedded database',
      () => ownerOf(join(folder, '.sluice/postgresql')),
      'which belongs to the database',
    ],
  ])('is refused when the worker starts, for a user %s', async (_, user, why) => {
    const config = join(folder, 'refused.yaml')
    writeFileSync(config, `tasks: { job: { exec: ['true'], user: "${user()}" } }\n`)

    const child = spawn(process.execPath, [MAIN, 'worker', '--config', config, '--json'], {
      cwd: folder,
      env: { PATH: process.env.PATH, TMPDIR: join(folder, 'tmp') },
    })
    let text = ''
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
    await once(child, 'close')

    expect(child.exitCode).not.toBe(0)
    expect(text).toContain('EXEC_USER_UNAVAILABLE')
    expect(text).toContain(why)
  })

  test('is refused by a worker that is not root', async () => {
    await expect(asOrdinaryUser(() => findExecUser('job', AS))).rejects.toMatchObject({
      code: 'EXEC_USER_UNAVAILABLE',
      message: expect.stringContaining('Start the worker as root, or remove user: from the task') as string,
    })
  })

  test('cannot hand in a file that it could not read as its result', async () => {
    const user = await findExecUser('job', AS)
    const workdirs = await Workdirs.open(join(folder, 'tmp/link-as'), user)
    const workdir = workdirs.create('1', 1)
    writeFileSync(join(workdir, '.sluice-result.json'), '"a file of root"')
    const attempt = new RecordedAttempt({ workdir: () => workdir })

    const run = createExecExecutor({ argv: ['true'], user })(attempt)

    await expect(run).rejects.toThrow(`SLUICE_RESULT belongs to user 0; it must belong to ${AS}`)
    await workdirs.close()
  })

  test('is warned of by check, where a worker here could not start', async () => {
    const config = join(folder, 'checked.yaml')
    writeFileSync(config, `tasks: { job: { exec: ['true'], user: nobody-of-that-name } }\n`)
    const child = spawn(process.execPath, [MAIN, 'check', config], { cwd: folder })
    let text = ''
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
    await once(child, 'close')

    expect(text).toContain('task job: task "job" runs as user "nobody-of-that-name"')
    expect(text).toContain('EXEC_USER_UNAVAILABLE')
  })
})

test('a folder that nobody could try to enter is not taken for one that is closed', async () => {
  // No system has such a user: the program that is to try it does not start.
  const nobody = { name: 'nobody-at-all', uid: 2 ** 31, gid: 2 ** 31, home: '/' }
  await expect(canEnter(nobody, '/')).rejects.toMatchObject({
    code: 'EXEC_USER_UNAVAILABLE',
    message: expect.stringContaining('could not check whether user'),
  })
})

test.skipIf(skippedBecause !== undefined)(
  'a folder is tried by its user (root only: changes user)',
  async () => {
    const user = { name: AS, ...USER, home: '/' }
    const folder = await makeFolder(0o700)
    try {
      expect([await canEnter(user, '/'), await canEnter(user, folder)]).toEqual([true, false])
    } finally {
      await removeFolder(folder)
    }
  },
)

test('rejects user for a task that is not a program', async () => {
  const { checkConfig } = await import('../../src/config/check-config.ts')

  expect(() => checkConfig({ tasks: { job: { user: 'builder' } } })).toThrow(
    'only a program can run as another user; add exec, or remove user',
  )
})

function ownerOf(path: string): string {
  const { uid, gid } = statSync(path)
  return `${uid}:${gid}`
}

async function asOrdinaryUser<T>(act: () => Promise<T>): Promise<T> {
  process.seteuid!(65_534)
  try {
    return await act()
  } finally {
    process.seteuid!(0)
  }
}
