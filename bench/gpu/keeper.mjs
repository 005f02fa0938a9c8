// Sluice's own readings and models on a real GPU, without a database: how long it takes to see the GPU, what it learns of
// models of known size, and how long after an unload or a kill its reports show the memory as free.
//
//     node bench/gpu/keeper.mjs [FOLDER]      after npm run build; SLUICE_DIST names another folder than dist
//
// A model is a process of PyTorch that holds so much memory (measure.py --hold).
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'

const dist = resolve(process.env.SLUICE_DIST ?? join(import.meta.dirname, '..', '..', 'dist'))
const { GpuReader } = await import(`${dist}/worker/devices/gpu-reader.js`)
const { DeviceWatch } = await import(`${dist}/worker/devices/device-watch.js`)
const { ModelKeeper } = await import(`${dist}/worker/models/model-keeper.js`)
const { model } = await import(`${dist}/worker/models/model.js`)

const GB = 1024 ** 3
const MIB = 1024 ** 2
const log = { info() {}, warn: console.error, error: console.error }
const reports = []
const waiting = new Set()
const source = {
  async reportDevices(readings) {
    if (readings.length > 0) reports.push({ at: performance.now(), used: readings[0].used })
    for (const look of waiting) look()
    return [{ name: 'vram', auto: true, declared: {} }]
  },
}

class Holder {
  constructor(bytes) {
    this.process = spawn('python3', [join(import.meta.dirname, 'measure.py'), '--hold'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]()
    this.bytes = bytes
  }

  async ask(order) {
    this.process.stdin.write(`${JSON.stringify(order)}\n`)
    return JSON.parse((await this.lines.next()).value)
  }

  async load() {
    await this.ask({ do: 'start' })
    await this.ask({ do: 'load', name: 'model', bytes: this.bytes, pinned: false })
  }

  async end(signal) {
    const gone = new Promise((done) => this.process.once('exit', done))
    if (signal === undefined) this.process.stdin.end()
    else this.process.kill(signal)
    await gone
  }
}

/** Resolves when a report matches; gives when it was made. */
function reported(matches) {
  return new Promise((done) => {
    const from = reports.length
    const look = () => {
      const found = reports.slice(from).find(matches)
      if (found === undefined) return
      waiting.delete(look)
      done(found.at)
    }
    waiting.add(look)
  })
}

// The watch alone does not keep a process alive.
const alive = setInterval(() => {}, 1000)
const begun = performance.now()
const answer = await new GpuReader().read()
const firstReadMs = performance.now() - begun
if (answer.kind !== 'read' || answer.gpus.length === 0) throw new Error(`no GPU: ${JSON.stringify(answer)}`)
const times = []
for (let i = 0; i < 20; i++) {
  const at = performance.now()
  await new GpuReader().read()
  times.push(performance.now() - at)
}
const [gpu] = answer.gpus
const devices = new DeviceWatch({ source, host: 'here', log })
devices.start()
await reported((report) => report.used !== null)

const attempt = { signal: new AbortController().signal, services: { progress() {} } }
const rows = []
for (const size of [5, 20, 40]) {
  let holder
  const name = `${size}GB`
  const llm = model({
    name,
    load: async () => {
      holder = new Holder(size * GB)
      await holder.load()
      return holder
    },
    unload: (value) => value.end(),
  })
  const keeper = new ModelKeeper({ models: new Map([[name, llm]]), devices, log, onNews() {} })
  const copy = keeper.join(name, [gpu.uuid])
  await keeper.ready(copy, attempt, false)
  const [{ loadMs, observed }] = keeper.takeNews().loaded
  keeper.told(true)
  keeper.leave(copy, true)
  const free = reported((report) => report.used < 1024 * MIB)
  const asked = performance.now()
  keeper.unload([{ model: name, device: gpu.uuid }])
  while (!keeper.hasNews) await new Promise((done) => setTimeout(done, 1))
  const toldAt = performance.now()
  rows.push({
    GB: size,
    loadMs: Math.round(loadMs),
    observedMiB: observed[gpu.uuid] / MIB,
    unloadToldAfterMs: Math.round(toldAt - asked),
    reportedFreeAfterMs: Math.round((await free) - asked),
  })
}

const kills = []
for (let i = 0; i < 3; i++) {
  const holder = new Holder(20 * GB)
  await holder.load()
  await devices.refresh()
  const free = reported((report) => report.used < 1024 * MIB)
  const at = performance.now()
  await holder.end('SIGKILL')
  kills.push(Math.round((await free) - at))
}
await devices.stop()
clearInterval(alive)
times.sort((a, b) => a - b)
const results = {
  gpu,
  node: process.version,
  firstReadMs: Math.round(firstReadMs),
  readMs: { median: Math.round(times[10]), max: Math.round(times[19]) },
  models: rows,
  reportedFreeAfterKillMs: kills,
}
console.log(JSON.stringify(results, null, 2))
writeFileSync(
  join(process.argv[2] ?? process.env.OUT ?? '.', 'keeper.json'),
  `${JSON.stringify(results, null, 2)}\n`,
)
