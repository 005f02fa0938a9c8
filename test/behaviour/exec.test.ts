import { existsSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { StartFailure } from '../../src/worker/attempt.ts'
import { createExecExecutor, type ExecOptions } from '../../src/worker/exec.ts'
import { guardPid } from '../../src/worker/orphan-guard.ts'
import { childrenOf, expectGone, Fixture, isAlive, markDescendants } from '../support/processes.ts'
import { RecordedAttempt } from '../support/recorded-attempt.ts'

const fixtures = fileURLToPath(new URL('../support/fixtures', import.meta.url))
const descendants = markDescendants()
let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-exec-test-'))
})

afterEach(() => rm(folder, { recursive: true, force: true }))

afterAll(async () => {
  await vi.waitFor(() => expect(descendants.left()).toEqual([]), { timeout: 60_000 })
})

interface Echo {
  args: string[]
  input: unknown
  env: Record<string, string>
  cwd: string
}

function newAttempt(options: { input?: unknown; number?: number; graceMs?: number } = {}): RecordedAttempt {
  return new RecordedAttempt({ ...options, workdir: () => folder })
}

function shell(script: string, options: Omit<ExecOptions, 'argv'> = {}) {
  return createExecExecutor({ argv: ['sh', '-c', script], ...options })
}

describe('what a program gets', () => {
  const echo = (options: Partial<ExecOptions> = {}) =>
    createExecExecutor({ argv: ['./echo-program.mjs'], cwd: fixtures, ...options })

  test('is its input on stdin, the workdir to run in, and where to leave its result', async () => {
    const result = (await echo()(newAttempt({ input: { n: [1, 'ü'] }, number: 3 }))) as Echo

    expect(result.input).toEqual({ n: [1, 'ü'] })
    expect(result.cwd).toBe(folder)
    expect(result.env).toMatchObject({ SLUICE_JOB_ID: 'job-1', SLUICE_ATTEMPT: '3' })
  })

  test('is the environment of the worker without what opens the database', async () => {
    const secrets = { DATABASE_URL: 'postgres://x', SLUICE_KEY: 'slk_x', PGPASSWORD: 'x', PGPASSFILE: '/x' }
    Object.assign(process.env, secrets, { HARMLESS: 'yes' })
    try {
      const { env } = (await echo({ env: { MODE: 'fast', SLUICE_JOB_ID: 'forged' } })(newAttempt())) as Echo

      expect(Object.keys(env).filter((name) => name in secrets)).toEqual([])
      expect(env).toMatchObject({
        HARMLESS: 'yes',
        MODE: 'fast',
        SLUICE_JOB_ID: 'job-1',
        PATH: process.env.PATH,
      })
    } finally {
      for (const name of [...Object.keys(secrets), 'HARMLESS']) delete process.env[name]
    }
  })

  test('is its arguments as they are, never through a shell', async () => {
    const args = ['$(touch made)', '; touch made', '*', 'a b', "'"]

    const result = (await echo({ argv: ['./echo-program.mjs', ...args] })(newAttempt())) as Echo

    expect(result.args).toEqual(args)
    expect(existsSync(join(folder, 'made'))).toBe(false)
  })

  test('may come as a path from the base folder, also as an argument', async () => {
    const argv = [process.execPath, './echo-program.mjs', './here', 'plain']

    const result = (await echo({ argv })(newAttempt())) as Echo

    expect(result.args).toEqual([join(fixtures, 'here'), 'plain'])
  })

  test('need not be read: a large input to a deaf program does no harm', async () => {
    const attempt = newAttempt({ input: 'x'.repeat(5_000_000) })

    expect(await shell('exit 0')(attempt)).toBeNull()
    expect(await shell('exec 0<&-; echo 7 > $SLUICE_RESULT')(attempt)).toBe(7)
  })
})

describe('the result', () => {
  test('is null when none was written', async () => {
    expect(await shell('true')(newAttempt())).toBeNull()
  })

  test.each([
    ['echo "{oops" > $SLUICE_RESULT', 'the result is not JSON in UTF-8'],
    ['printf "\\"\\377\\"" > $SLUICE_RESULT', 'the result is not JSON in UTF-8'],
    [': > $SLUICE_RESULT', 'the result file is empty'],
    ['mkdir $SLUICE_RESULT', 'SLUICE_RESULT is not a plain file'],
    ['ln -s /etc/hostname $SLUICE_RESULT', 'the result file cannot be read'],
    ['mkfifo $SLUICE_RESULT', 'SLUICE_RESULT is not a plain file'],
  ])('fails the attempt when it cannot be used: %s', async (script, message) => {
    const failing = shell(script)(newAttempt())

    await expect(failing).rejects.toMatchObject({
      code: 'ATTEMPT_FAILED',
      message: expect.stringContaining(message) as string,
    })
  })

  test('fails the attempt when it is too large', async () => {
    const run = shell('printf \'"%0100d"\' 1 > $SLUICE_RESULT', { maxResultBytes: 100 })

    await expect(run(newAttempt())).rejects.toThrow('the result has 102 bytes; at most 100 are allowed')
  })
})

describe('the log', () => {
  test('has each line of stdout and stderr', async () => {
    const attempt = newAttempt()

    await shell('echo one; echo two >&2; printf "three\\r\\n\\nno end"')(attempt)

    const of = (level: string) =>
      attempt.lines.filter((line) => line.level === level).map((line) => line.message)
    expect(of('info')).toEqual(['one', 'three', '', 'no end'])
    expect(of('warn')).toEqual(['two'])
  })

  test('is text whatever the bytes: cut characters are put together, wrong ones and NUL replaced', async () => {
    const attempt = newAttempt()
    // The two bytes of one character, far enough apart to arrive one by one.
    const split =
      'printf "\\303"; cat $SLUICE_RESULT.gate >/dev/null; printf "\\274\\n"; printf "a\\000b\\377c\\n"'
    const running = shell(`mkfifo $SLUICE_RESULT.gate; echo ready; ${split}`)(attempt)
    await attempt.logged('ready')
    writeFileSync(join(folder, '.sluice-result.json.gate'), '')
    await running

    expect(attempt.messages.slice(1)).toEqual(['ü', 'a\uFFFDb\uFFFDc'])
  })

  test('shows of a rewritten line what a terminal would', async () => {
    const attempt = newAttempt()

    await shell('printf "10%%\\r50%%\\r100%%\\n"')(attempt)

    expect(attempt.messages).toEqual(['100%'])
  })

  test('cuts a line that is too long, never within a character', async () => {
    const attempt = newAttempt()

    await shell('printf x; i=0; while [ $i -lt 5000 ]; do printf ü; i=$((i+1)); done; echo; echo next')(
      attempt,
    )

    expect(attempt.messages).toEqual([`x${'ü'.repeat(4095)}… (1809 more bytes)`, 'next'])
  })

  test('is bounded in all, says so once, and progress goes on', async () => {
    const attempt = newAttempt()
    const script =
      'i=0; while [ $i -lt 100 ]; do echo 123456789; i=$((i+1)); done; echo "::progress 0.5"; echo end >&2; exit 1'

    const failing = shell(script, { maxOutputBytes: 55 })(attempt)

    await expect(failing).rejects.toThrow('exited with code 1: end')
    expect(attempt.messages).toEqual([
      ...Array(5).fill('123456789'),
      'output after the first 55 bytes is not kept',
    ])
    expect(attempt.progressed).toEqual([[0.5, undefined]])
  })

  test('takes progress from stdout only, and leaves other lines alone', async () => {
    const attempt = newAttempt()
    const lines = [
      '::progress 0.4 loading ü',
      '::progress 1',
      '::progress 7',
      '::progress .25 x',
      '::progress soon',
      '::progress',
    ]

    await shell(`printf '%s\\n' ${lines.map((line) => `'${line}'`).join(' ')}; echo '::progress 0.1' >&2`)(
      attempt,
    )

    expect(attempt.progressed).toEqual([
      [0.4, 'loading ü'],
      [1, undefined],
      [1, undefined],
      [0.25, 'x'],
    ])
    expect(attempt.messages.sort()).toEqual(['::progress', '::progress 0.1', '::progress soon'])
  })
})

describe('a failure', () => {
  test('names the exit code and the end of stderr', async () => {
    const failing = shell('for n in 1 2 3 4; do echo line $n >&2; done; echo out; exit 3')(newAttempt())

    await expect(failing).rejects.toMatchObject({
      code: 'ATTEMPT_FAILED',
      message: 'exited with code 3: line 2\nline 3\nline 4',
    })
  })

  test('names the signal that killed it', async () => {
    await expect(shell('kill -SEGV $$')(newAttempt())).rejects.toThrow(/^killed by SIGSEGV$/)
  })

  test.each([
    [
      { argv: ['./missing.sh'], cwd: fixtures },
      `cannot start ${join(fixtures, 'missing.sh')}: it does not exist`,
    ],
    [
      { argv: ['no-such-program-anywhere'], env: { PATH: '/usr/bin:/bin' } },
      'cannot start no-such-program-anywhere: it does not exist',
    ],
    [{ argv: ['./program-owner.mjs'], cwd: fixtures }, 'it is not executable for this user'],
  ])('to start is the worker, not the job: %j', async (options, message) => {
    const failing = createExecExecutor(options)(newAttempt())

    await expect(failing).rejects.toBeInstanceOf(StartFailure)
    await expect(failing).rejects.toMatchObject({
      code: 'START_FAILED',
      message: expect.stringContaining(message) as string,
    })
  })

  test.each([[[]], [['']], [['sh', 'a\0b']]])('to be a command is refused at definition: %j', (argv) => {
    expect(() => createExecExecutor({ argv })).toThrow('must be a program and its arguments')
  })
})

describe('a stop', () => {
  test('before the start starts nothing', async () => {
    const attempt = newAttempt()
    attempt.stop()

    await expect(shell('touch made')(attempt)).rejects.toBe(attempt.signal.reason)
    expect(readdirSync(folder)).toEqual([])
  })

  test('asks the whole group, and is the reason of the ending whatever the exit code', async () => {
    const attempt = newAttempt()
    const child = `sh -c 'trap "echo child asked; exit" TERM; echo child $$; while :; do sleep 0.01; done' &`
    const running = shell(`${child} trap "echo asked; wait; exit 0" TERM; wait`)(attempt)
    const childPid = Number(await attempt.logged('child '))

    attempt.stop('timeout')

    await expect(running).rejects.toBe(attempt.signal.reason)
    expect(attempt.messages).toEqual(expect.arrayContaining(['asked', 'child asked']))
    await expectGone(childPid)
  })

  test('kills the whole group when the grace is over', async () => {
    const attempt = newAttempt({ graceMs: 50 })
    const deaf = `trap '' TERM; sleep 1000 & echo pids $$ $!; while :; do sleep 1000; done`
    const running = shell(deaf)(attempt)
    const pids = (await attempt.logged('pids ')).split(' ').map(Number)

    attempt.stop()

    await expect(running).rejects.toBe(attempt.signal.reason)
    await expectGone(...pids)
  })

  test('leaves the rest of the grace to a child that tidies up after its parent has gone', async () => {
    const attempt = newAttempt()
    const tidy = `sh -c 'trap "while [ ! -e gate ]; do sleep 0.01; done; touch tidied; exit" TERM; echo ready; while :; do sleep 0.01; done' &`
    const running = shell(`${tidy} echo leader $$; wait`)(attempt)
    const leader = Number(await attempt.logged('leader '))
    await attempt.logged('ready')

    attempt.stop()
    await expectGone(leader)
    writeFileSync(join(folder, 'gate'), '')

    await expect(running).rejects.toBe(attempt.signal.reason)
    expect(existsSync(join(folder, 'tidied'))).toBe(true)
  })
})

describe('what a program leaves running', () => {
  test('is killed when the program has ended', async () => {
    const attempt = newAttempt()

    await shell('sleep 1000 & echo pid $!')(attempt)

    await expectGone(Number(await attempt.logged('pid ')))
  })

  test('outside its group does not keep the attempt from ending', async () => {
    const attempt = newAttempt()

    const start = 'setsid sh -c "echo daemon \\$\\$; touch up; exec sleep 1000" &'
    await shell(`${start} while ! [ -e up ]; do sleep 0.01; done`)(attempt)

    const daemon = Number(await attempt.logged('daemon '))
    expect(isAlive(daemon)).toBe(true)
    process.kill(daemon, 'SIGKILL')
    await expectGone(daemon)
  })

  test('dies with the worker, even when that is killed with SIGKILL', async () => {
    const script = `trap '' TERM HUP; sleep 1000 & echo $$; echo $!; while :; do sleep 1000; done`
    const owner = new Fixture('program-owner.mjs', folder, script)
    const pids = [Number(await owner.line()), Number(await owner.line())]
    expect(pids.every(isAlive)).toBe(true)
    const guards = childrenOf(owner.pid, 'orphan-guard')
    expect(guards).toHaveLength(1)

    await owner.kill('SIGKILL')

    await expectGone(...pids, ...guards)
  })

  test('has a guard again when that was killed, also for programs already running', async () => {
    const attempt = newAttempt({ graceMs: 0 })
    const first = shell('echo running; exec sleep 1000')(attempt)
    await attempt.logged('running')
    const killed = guardPid()!
    process.kill(killed, 'SIGKILL')
    await expect.poll(guardPid, { timeout: 60_000 }).toBeUndefined()

    await shell('true')(newAttempt())

    expect(isAlive(guardPid()!)).toBe(true)
    attempt.stop()
    await expect(first).rejects.toBe(attempt.signal.reason)
  })
})

test('the input ends with a newline, as read -r of a shell expects', async () => {
  const script = 'set -e; read -r line; printf %s "$line" > "$SLUICE_RESULT"'
  expect(await shell(script)(newAttempt({ input: { n: 1 } }))).toEqual({ n: 1 })
})

test('a result whose numbers would lose digits is refused, with the place', async () => {
  const script = `printf '%s' '{"rows":[{"id":9007199254740993}]}' > "$SLUICE_RESULT"`
  await expect(shell(script)(newAttempt())).rejects.toMatchObject({
    code: 'ATTEMPT_FAILED',
    message: expect.stringContaining(
      'the result cannot be stored: rows[0].id: 9007199254740993 has more digits',
    ) as string,
  })
})
