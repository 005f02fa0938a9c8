// A worker process for tests. argv[2] is JSON: the options of sluice() and work(), and the tasks by name. It tells its
// parent over IPC what happens, and ends when the parent does.
import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { remoteWorker, retryAt, sluice, task } from 'sluice'

const { options, work, tasks, remote } = JSON.parse(process.argv[2])
const gates = new Map()

process.on('disconnect', () => process.exit(1))

function tell(message) {
  if (process.connected) process.send(message, () => {})
}

function open(gate) {
  if (!gates.has(gate)) gates.set(gate, Promise.withResolvers?.() ?? withResolvers())
  return gates.get(gate)
}

function withResolvers() {
  let resolve
  const promise = new Promise((done) => {
    resolve = done
  })
  return { promise, resolve }
}

/** The input says what the task does: `gate` waits for the test, which names the job; `deaf` ignores the signal; `blockUntil` blocks the loop until there is such a file. */
async function act(input, ctx) {
  const { journal } = input
  if (!journal) return run(input, ctx)
  const note = (what) => appendFileSync(journal, `${what} ${ctx.job.id} ${ctx.attempt} ${process.pid}\n`)
  note('start')
  try {
    return await run(input, ctx)
  } finally {
    note('end')
  }
}

async function run({ gate, deaf, die, blockMs, blockUntil, sleepMs, fail, folder, step, stepFile }, ctx) {
  const { job, attempt, signal } = ctx
  const facts = { job: job.id, attempt, pid: process.pid }
  if (folder) facts.folder = ctx.workdir
  // Each run of the step's function leaves a line in the file.
  const leave = () => {
    appendFileSync(stepFile, `${attempt}\n`)
    return attempt
  }
  const stepped = stepFile && (await ctx.step('once', leave))
  if (gate || folder || blockMs || blockUntil) tell({ kind: 'started', ...facts })
  if (die) process.kill(process.pid, 'SIGKILL')
  if (blockMs) {
    for (const end = Date.now() + blockMs; Date.now() < end; );
  }
  if (blockUntil) while (!existsSync(blockUntil));
  if (sleepMs) await delay(sleepMs, undefined, deaf ? {} : { signal })
  if (gate) {
    const stopped = new Promise((_, reject) => {
      signal.addEventListener('abort', () => {
        tell({ kind: 'stopped', ...facts, reason: signal.reason.reason, at: Date.now() })
        if (!deaf) reject(signal.reason)
      })
    })
    await Promise.race([open(job.id).promise, stopped])
  }
  if (step) await ctx.step(step, () => attempt)
  if (fail === 'for good') throw new Error('failed on purpose')
  if (fail && attempt <= fail) throw retryAt(1, 'failed on purpose')
  return { attempt, pid: process.pid, ...(stepFile && { stepped }) }
}

const log = Object.fromEntries(
  ['debug', 'info', 'warn', 'error'].map((level) => [
    level,
    (fields, message) => tell({ kind: 'log', level, fields, message, at: Date.now() }),
  ]),
)

const all = Object.entries(tasks).map(([name, rest]) => task({ name, ...rest, run: act }))
const app = remote
  ? await remoteWorker({ ...remote, ...work, log, tasks: all })
  : await sluice({ ...options, log, tasks: all })
process.on('message', (message) => {
  if ('go' in message) open(message.go).resolve()
  if ('close' in message) {
    app.close().then(() => {
      tell({ kind: 'closed' })
      process.disconnect()
    })
  }
})
if (work && !remote) await app.work(work)
tell({ kind: 'ready', url: app.databaseUrl ?? remote.server })
