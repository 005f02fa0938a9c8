import { mkdir, readFile, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { isAlive } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { Cli } from './cli.ts'

const database = useDatabase()
const cli = new Cli({ DATABASE_URL: database.url, SLUICE_SHUTDOWN_GRACE: '20s' })

beforeAll(async () => {
  await cli.write(
    'sluice.yaml',
    `tasks:
  hold: { exec: [/bin/sh, -c, 'read -r file; file=$(echo "$file" | tr -d "\\042"); echo $$ > "$file.pid"; until [ -e "$file" ]; do sleep 0.02; done'] }
`,
  )
})

/** A job that runs until its file exists, on a worker of its own. */
async function busyWorker(name: string) {
  const file = join(cli.folder, name)
  const worker = cli.start(['worker', '--name', name])
  await worker.says('ready to take jobs')
  const { id } = await cli.json<{ id: string }>('submit', 'hold', '--input', JSON.stringify(file))
  await until(async () => (await state(id)).state === 'running', `job ${id} to run`)
  return { worker, id, file: name }
}

async function state(id: string) {
  const [row] = await database.sql<{ state: string; attempt: number; failures: number }>(
    'select state, attempt, failures from sluice.jobs where id = $1',
    [id],
  )
  return row!
}

async function endings(name: string): Promise<(string | null)[]> {
  const rows = await database.sql<{ ended_why: string | null }>(
    'select ended_why from sluice.workers where name = $1',
    [name],
  )
  return rows.map((row) => row.ended_why)
}

describe('stopping', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    '%s lets what runs finish, takes nothing new, and exits with 0',
    async (signal) => {
      const { worker, id, file } = await busyWorker(`graceful-${signal}`)
      process.kill(worker.process.pid!, signal)
      await worker.says('stopping: no new jobs')
      const { id: later } = await cli.json<{ id: string }>(
        'submit',
        'hold',
        '--input',
        '"x"',
        '--run-at',
        '1h',
      )
      await cli.write(file, '')
      expect(await worker.exited).toBe(0)
      expect((await state(id)).state).toBe('completed')
      expect(await endings(file)).toEqual(['stopped'])
      await cli.run(['cancel', later])
    },
  )

  test('a second signal stops at once: the program is killed and its job handed back without burning an attempt', async () => {
    const { worker, id, file } = await busyWorker('hurried')
    const pid = await until(
      async () =>
        Number(await readFile(join(cli.folder, `${file}.pid`), 'utf8').catch(() => '')) || undefined,
      'the pid of the program',
    )
    process.kill(worker.process.pid!, 'SIGTERM')
    await worker.says('stopping: no new jobs')
    process.kill(worker.process.pid!, 'SIGTERM')
    expect(await worker.exited).toBe(143)
    expect(worker.stderr).toContain('stopping at once')
    expect(isAlive(pid)).toBe(false)
    expect(await state(id)).toMatchObject({ state: 'ready', failures: 0 })
    await cli.run(['cancel', id])
  })
})

describe('what it works on', () => {
  test('a config without tasks is refused with what to write', async () => {
    await cli.write('empty.yaml', 'capacity: 2\n')
    const { code, stderr } = await cli.run(['worker', '--config', 'empty.yaml'])
    expect(code).toBe(2)
    expect(stderr).toContain('there is nothing to work on')
    expect(stderr).toContain('hint:  in sluice.yaml: tasks:')
  })

  test('a task that the config does not have is refused with the one that was meant', async () => {
    const { code, stderr } = await cli.run(['worker', '--tasks', 'holt'])
    expect(code).toBe(2)
    expect(stderr).toContain('--tasks: task "holt" does not exist in the config')
    expect(stderr).toContain('hint:  did you mean hold?')
  })

  test('tasks that a TypeScript config exports run inline and in processes; labels decide who takes what', async () => {
    const folder = join(cli.folder, 'typescript')
    await mkdir(join(folder, 'node_modules'), { recursive: true })
    await symlink(fileURLToPath(new URL('../..', import.meta.url)), join(folder, 'node_modules/sluice'))
    await cli.write(
      'typescript/sluice.config.ts',
      `import { defineConfig, fail, task } from 'sluice'
const add = task({ name: 'add', run: ({ a, b }: { a: number; b: number }) => {
  if (a < 0) throw fail('a is negative')
  return a + b
} })
const apart = task({ name: 'apart', execution: 'process', module: import.meta.url, run: () => process.pid })
const picky = task({ name: 'picky', requires: { gpu: true, cores: 8 }, run: () => 'taken' })
export const tasks = { add, apart, picky }
export default defineConfig({ lanes: { interactive: { tasks: ['add'], slots: 2 } } })
`,
    )
    const worker = cli.start(
      ['worker', '--name', 'ts', '--capacity', '0', '--label', 'gpu=true', '--label', 'cores=8'],
      { folder },
    )
    await worker.says('ready to take jobs')
    const run = (...args: string[]) => cli.run(['submit', ...args, '--wait'], { folder })
    expect((await run('add', '--input', '{"a":1,"b":2}')).stdout).toBe('3\n')
    expect((await run('add', '--input', '{"a":-1,"b":2}')).stderr).toContain('failed: a is negative')
    const pid = Number((await run('apart')).stdout)
    expect(pid).toBeGreaterThan(1)
    expect(pid).not.toBe(worker.process.pid)
    expect((await run('picky')).stdout).toBe('"taken"\n')
    expect(await worker.end('SIGTERM')).toBe(0)
  })
})

describe('its log', () => {
  test('is JSON on stderr where that is no terminal, and nothing goes to stdout', async () => {
    const worker = cli.start(['worker', '--name', 'logged'])
    await worker.says('ready to take jobs')
    await worker.end('SIGTERM')
    expect(worker.stdout).toBe('')
    const lines = worker.stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines[0]).toMatchObject({ level: 30, name: 'sluice', worker: 'logged', tasks: ['hold'] })
    expect(lines.map((line) => line.msg)).toEqual([
      'ready to take jobs',
      'stopping: no new jobs; once more to stop at once',
      'stopped',
    ])
  })
})
