import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { isAlive, markDescendants } from '../support/processes.ts'
import { until } from '../support/until.ts'
import { Cli, type Running } from './cli.ts'

const database = useDatabase()
const cli = new Cli({ DATABASE_URL: database.url, SLUICE_LOG: 'info' })
const own = new Cli({ DATABASE_URL: '', SLUICE_LOG: 'warn' })
const fresh = new Cli({ DATABASE_URL: '', SLUICE_LOG: 'warn' })

const YAML = `
tasks:
  hello: { exec: [node, -e, "require('fs').writeFileSync(process.env.SLUICE_RESULT, '7')"] }
`

async function address(running: Running): Promise<string> {
  await running.says(/listening on http:\/\/127\.0\.0\.1:\d+/)
  return /listening on (http:\/\/127\.0\.0\.1:\d+)/.exec(running.stdout)![1]!
}

async function ask(
  url: string,
  key: string,
  init: RequestInit = {},
): Promise<{ status: number; body: unknown }> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', connection: 'close' }
  const answer = await fetch(url, { ...init, headers })
  return { status: answer.status, body: await answer.json() }
}

describe('sluice server', () => {
  test('prints the first key of a database once, sets a ceiling and a start deadline, and serves', async () => {
    await cli.write('sluice.yaml', YAML)
    const first = cli.start(['server', '--port', '0'])
    const url = await address(first)
    const key = /^admin key: (slk_[\w-]{43})$/m.exec(first.stdout)![1]!
    const submitted = await ask(`${url}/api/v1/jobs`, key, {
      method: 'POST',
      body: JSON.stringify({ task: 'hello', input: {} }),
    })
    expect(submitted.status).toBe(202)
    const { id } = submitted.body as { id: string }
    const job = (await ask(`${url}/api/v1/jobs/${id}`, key)).body as { readyAt: string; deadlineAt: string }
    expect(Date.parse(job.deadlineAt) - Date.parse(job.readyAt)).toBe(4 * 3_600_000)
    expect((await ask(`${url}/api/v1/admin/admission`, key)).body).toMatchObject({
      maxActive: 1024,
      deadlineMs: 4 * 3_600_000,
      defaultSet: ['deadline', 'maxActive'],
    })
    const limits =
      'at most 1024 active jobs, jobs must start within 4h, for all submitters, including the library'
    const off = 'switch off with: sluice admission --max-active none --deadline none'
    expect(first.stdout.match(/^limits set: .*$/gm)).toEqual([`limits set: ${limits}; ${off}`])
    expect((await cli.run(['admission'])).stdout).toContain(`${limits}; ${off}`)

    const second = cli.start(['server', '--port', '0', '--json'])
    await until(() => second.stdout.includes('\n'), 'the second server to say where it is', 60_000)
    expect(second.stdout + second.stderr).not.toContain('limits set')
    const said = JSON.parse(second.stdout) as { url: string; adminKey?: string }
    expect(second.stdout.trimEnd()).not.toContain('\n')
    expect(said).not.toHaveProperty('adminKey')
    expect((await ask(`${said.url}/api/v1/jobs/${id}`, key)).status).toBe(200)

    expect(await first.end('SIGTERM')).toBe(0)
    expect(await second.end('SIGINT')).toBe(0)
    expect(first.stderr).not.toContain(key)
  })

  test('takes its port from the environment, and says what is wrong with it', async () => {
    const wrong = await cli.run(['server'], { environment: { SLUICE_PORT: 'http' } })
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('SLUICE_PORT')])
    const first = cli.start(['server'], { environment: { SLUICE_PORT: '0' } })
    const { port } = new URL(await address(first))
    const taken = await cli.run(['server', '--port', port])
    expect(taken.code).toBe(2)
    expect(taken.stderr).toContain('another program listens there')
    expect((await cli.run(['server', '--port', '70000'])).code).toBe(2)
    await first.end('SIGTERM')
  })

  test('warns that there is no TLS where others can listen in', async () => {
    const server = cli.start(['server', '--port', '0', '--host', '0.0.0.0'])
    await server.says('without TLS')
    await server.end('SIGTERM')
  })
})

describe('sluice up', () => {
  test('is database, server and worker in one, and leaves nothing behind', async () => {
    const mark = markDescendants()
    // A first start that fails makes no key: nobody would be shown it.
    await own.write('sluice.yaml', YAML.replace('exec:', 'user: nobody-has-this-name, exec:'))
    const failed = await own.run(['up', '--port', '0'], { ownProcess: true })
    expect(failed).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('no such user') })
    await own.write('sluice.yaml', YAML)
    const up = own.start(['up', '--port', '0'])
    const url = await address(up)
    const key = /^admin key: (slk_[\w-]{43})$/m.exec(up.stdout)![1]!
    const { body } = await ask(`${url}/api/v1/jobs`, key, {
      method: 'POST',
      body: JSON.stringify({ task: 'hello', input: {} }),
    })
    const { id } = body as { id: string }
    const done = await until(async () => {
      const job = (await ask(`${url}/api/v1/jobs/${id}`, key)).body as { status: string; result: unknown }
      return job.status === 'completed' ? job : undefined
    }, `job ${id} to complete`)
    expect(done.result).toBe(7)

    expect(up.stdout + up.stderr, 'anyone who reads the log of a service could sign in').not.toContain('slt_')
    const keeper = Number(readFileSync(`/proc/${up.process.pid}/stat`, 'utf8').split(' ')[0])
    expect(await up.end('SIGINT')).toBe(0)
    expect(isAlive(keeper)).toBe(false)
    await until(
      () => mark.left().filter((pid) => Number(pid) !== process.pid).length === 0,
      'everything to be gone',
    )
  })

  test('with --tour keeps sample jobs flowing', async () => {
    const up = own.start(['up', '--port', '0', '--tour', '--json'])
    await until(() => up.stdout.includes('\n'), 'it to say where it is')
    // One line, so that a program that reads lines has all of it.
    expect(up.stdout.trimEnd().split('\n')).toHaveLength(1)
    const { url } = JSON.parse(up.stdout) as { url: string }
    const running = async () =>
      Number(
        /sluice_lane_running\{lane="interactive"\} (\d+)/m.exec(
          await (await fetch(`${url}/metrics`)).text(),
        )?.[1],
      )
    await until(async () => (await running()) > 0, 'sample jobs to run')
    expect(await up.end('SIGINT')).toBe(0)
  })

  test('with --tour takes, in an empty folder, what README and the guide send with curl', async () => {
    const up = fresh.start(['up', '--port', '0', '--tour'])
    const url = await address(up)
    const key = /^admin key: (slk_[\w-]{43})$/m.exec(up.stdout)![1]!
    for (const page of ['README.md', 'docs/guides/server.md']) {
      const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')
      const bodies = [...text.matchAll(/^ +-d '(\{.*?\})'/gm)].map((match) => match[1]!)
      expect(bodies, page).toHaveLength(1)
      const { status, body } = await ask(`${url}/api/v1/jobs`, key, { method: 'POST', body: bodies[0]! })
      expect([page, status]).toEqual([page, 202])
      const { id } = body as { id: string }
      await until(async () => {
        const job = (await ask(`${url}/api/v1/jobs/${id}`, key)).body as { status: string }
        return job.status === 'completed'
      }, `job ${id} of ${page} to complete`)
    }
    expect(await up.end('SIGINT')).toBe(0)
  })
})
