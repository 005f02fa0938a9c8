import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { SluiceClient } from '../../src/client/index.ts'
import { JobFailedError, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { startTestServer } from '../support/http-server.ts'

const database = useDatabase()
const apps = useApps(database)
const PROGRAM = fileURLToPath(new URL('../support/programs/uncaught.mjs', import.meta.url))

/** What Node prints for an uncaught error of `result()`. */
async function printed(name: string): Promise<{ id: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [PROGRAM, database.url, name], (_, stdout, stderr) =>
      resolve({ id: stdout.trim(), stderr }),
    )
  })
}

test('an uncaught error of result() shows class, frame and causes of what the handler threw, and where to look', async () => {
  const { id, stderr } = await printed('charge')
  expect(stderr).toContain(
    `JobFailedError: job ${id} (charge) failed: card 4242 was declined (caused by the bank said no). For details, run: sluice show ${id}\n`,
  )
  expect(stderr).toMatch(
    /\[cause\]: CardDeclined: card 4242 was declined\n +at .*chargeCard.*uncaught\.mjs:\d+/,
  )
  expect(stderr).toMatch(/\[cause\]: TypeError: the bank said no\n +at .*chargeCard.*uncaught\.mjs:\d+/)
  expect(stderr).toContain("reason: 'limit'")
})

test('an uncaught error of a workflow leads to the job that failed', async () => {
  const { id, stderr } = await printed('order')
  expect(stderr).toMatch(new RegExp(`JobFailedError: job ${id} \\(order\\) failed: .*sluice trace ${id}\\n`))
  expect(stderr).toMatch(
    /\[cause\]: JobFailedError: job \d+ \(charge\) failed: card 4242 was declined \(caused by the bank said no\)\. /,
  )
  expect(stderr).toMatch(/\[cause\]: CardDeclined: card 4242 was declined\n +at .*uncaught\.mjs:\d+/)
})

test('the error has its facts and its cause, by library and over a server', async () => {
  const breaks = task({
    name: 'breaks',
    retry: { attempts: 1 },
    run: (): number => {
      throw Object.assign(new RangeError('too far', { cause: 'a map' }), { status: 416 })
    },
  })
  const app = await apps.open({ tasks: [breaks] })
  await app.work()
  const { id } = await app.submit(breaks, undefined)
  const server = await startTestServer(database.url)
  try {
    const client = new SluiceClient({ server: server.url, key: await server.keyOf('platform_admin') })
    for (const job of [app.job(id), client.job(id)]) {
      const error = await job.result().then(
        () => undefined,
        (thrown: unknown) => thrown,
      )
      if (!(error instanceof JobFailedError)) throw new Error(`it gave ${String(error)}`)
      expect([error.code, error.jobId, error.task, error.error]).toEqual([
        'JOB_FAILED',
        id,
        'breaks',
        'too far (caused by a map)',
      ])
      const cause = error.cause as Error & { status: number }
      expect(cause).toBeInstanceOf(RangeError)
      expect([cause.name, cause.message, cause.status]).toEqual(['RangeError', 'too far', 416])
      expect(cause.stack).toMatch(/^RangeError: too far\n {4}at .*failed-result\.test\.ts:\d+/)
      expect(cause.cause).toMatchObject({ message: 'a map' })
    }
  } finally {
    await server.stop()
  }
})
