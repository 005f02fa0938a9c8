import { expect, test } from 'vitest'
import type { World } from '../../src/cli/command.ts'
import { runProgram } from '../../src/cli/program.ts'
import { type Sluice, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { plantLostClaims } from '../support/state/jobs.ts'

const database = useDatabase()
const apps = useApps(database)

/** Runs a command in this process, on an app that a test can hold up between two looks. */
async function run(args: readonly string[], app: ReturnType<typeof lookingOf>): Promise<string> {
  const lines: string[] = []
  const out = {
    write: (text: string) => void lines.push(text),
    line: (text = '') => void lines.push(text),
    isTerminal: false,
    hasColour: false,
    columns: undefined,
    rows: undefined,
    onResize: () => () => {},
  }
  const world = {
    out,
    err: out,
    environment: { DATABASE_URL: database.url },
    folder: '.',
    open: async () => app,
  }
  expect([await runProgram(args, world as unknown as World), lines.join('\n')]).toEqual([
    0,
    expect.any(String),
  ])
  return lines.join('\n')
}

/** What `show` asks of an app, and no end of it. */
function lookingOf(app: Sluice) {
  return {
    getJob: (id: string) => app.getJob(id),
    listAttempts: (id: string) => app.listAttempts(id),
    why: (id: string) => app.why(id),
    close: async () => {},
  }
}

test('show gives no reason of another moment when a job starts while it looks', async () => {
  const gate = new Gate()
  const held = task({ name: 'held', run: () => gate.pass() })
  const app = await apps.open({ tasks: [held] })
  const { id } = await app.submit(held, undefined)
  const startsBetween = {
    ...lookingOf(app),
    why: async (job: string) => {
      await app.work({ name: 'w1' })
      await gate.arrived(1)
      return app.why(job)
    },
  }
  const early = await run(['show', id], startsBetween)
  expect(early).toMatch(/^status +queued$/m)
  expect(early).not.toMatch(/^why/m)

  const later = await run(['show', id], lookingOf(app))
  expect(later).toMatch(/^status +running\nwhy +it is not waiting: it runs on w1$/m)
  gate.open()
})

test('show says of attempts that are missing that they never started', async () => {
  const breaks = task({
    name: 'breaks',
    retry: { attempts: 1 },
    run: (): null => {
      throw new Error('no luck')
    },
  })
  const app = await apps.open({ tasks: [breaks] })
  const { id } = await app.submit(breaks, undefined)
  await plantLostClaims(database.sql, id, 2)
  await app.work()
  await expect(app.job(id).result()).rejects.toThrow('no luck')
  const shown = await run(['show', id], lookingOf(app))
  const lost = (attempt: number) =>
    new RegExp(`^ +${attempt} +lost +never started: the worker lost the job`, 'm')
  expect(shown).toMatch(lost(1))
  expect(shown).toMatch(lost(2))
  expect(shown).toMatch(/^ +3 +failed .*no luck$/m)
})

test('show calls a job scheduled whose first start lies in the future', async () => {
  const later = task({ name: 'later', run: () => null })
  const app = await apps.open({ tasks: [later] })
  const { id } = await app.submit(later, undefined, { runAt: '1h' })
  expect(await run(['show', id], lookingOf(app))).toMatch(/^status +scheduled$/m)
  await app.cancel(id)
})
