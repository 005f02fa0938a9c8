// A worker process with models on fake GPUs. argv[2] is JSON as for worker.mjs; a task has the name and the size of its model
// besides. The memory is held by a process of its own, as that of a model server is, which outlives a killed worker by `lingerMs`.
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { model, remoteWorker, sluice, task } from 'sluice'

const MIB = 1024 ** 2
const { options, work, tasks, remote } = JSON.parse(process.argv[2])
const folder = process.env.FAKE_GPUS
const gates = new Map()

process.on('disconnect', () => process.exit(1))

function tell(message) {
  if (process.connected) process.send(message, () => {})
}

function gate(id) {
  if (!gates.has(id)) {
    let open
    const opened = new Promise((resolve) => {
      open = resolve
    })
    gates.set(id, { open, opened })
  }
  return gates.get(id)
}

function freeOf(uuid) {
  const line = readFileSync(join(folder, 'gpus'), 'utf8')
    .split('\n')
    .find((each) => each.includes(uuid))
  const total = Number(line.split('|')[3]) * MIB
  const taken = join(folder, 'taken', uuid)
  const used = (existsSync(taken) ? readdirSync(taken) : []).filter((file) =>
    existsSync(`/proc/${file.split('-')[0]}`),
  )
  return used.reduce((left, file) => left - Number(readFileSync(join(taken, file), 'utf8')) * MIB, total)
}

function fakeModel({ name, bytes, lingerMs = 0 }) {
  return model({
    name,
    load: ({ devices: [device] }) => {
      const free = freeOf(device)
      tell({
        kind: 'log',
        level: 'info',
        fields: { free },
        message: `load ${name} on ${device}`,
        at: Date.now(),
      })
      if (free < bytes) throw new Error(`CUDA error: out of memory (${free / MIB} MiB free)`)
      const holder = spawn('sh', ['-c', `cat >/dev/null; sleep ${lingerMs / 1000}`], {
        stdio: ['pipe', 'ignore', 'ignore'],
        detached: true,
      })
      mkdirSync(join(folder, 'taken', device), { recursive: true })
      const file = join(folder, 'taken', device, `${holder.pid}-${name}`)
      writeFileSync(file, String(bytes / MIB))
      return { holder, file }
    },
    unload: ({ holder, file }) => {
      holder.stdin.end()
      rmSync(file, { force: true })
    },
  })
}

const log = Object.fromEntries(
  ['debug', 'info', 'warn', 'error'].map((level) => [
    level,
    (fields, message) => tell({ kind: 'log', level, fields, message, at: Date.now() }),
  ]),
)

const all = Object.entries(tasks).map(([name, { model: about, ...rest }]) =>
  task({
    name,
    ...rest,
    model: fakeModel(about),
    run: async ({ gate: waits }, { job, attempt, devices }) => {
      tell({ kind: 'started', job: job.id, attempt, pid: process.pid })
      if (waits) await gate(job.id).opened
      return { attempt, devices, pid: process.pid }
    },
  }),
)
const app = remote
  ? await remoteWorker({ ...remote, ...work, log, tasks: all })
  : await sluice({ ...options, log, tasks: all })
process.on('message', (message) => {
  if ('go' in message) gate(message.go).open()
  if ('close' in message) {
    app.close().then(() => {
      tell({ kind: 'closed' })
      process.disconnect()
    })
  }
})
if (work && !remote) await app.work(work)
tell({ kind: 'ready', url: app.databaseUrl ?? remote.server })
