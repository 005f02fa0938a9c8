// A process under the coordinator's orders: a worker, a producer, or both. Talks over Node's IPC
// channel and ends when that channel closes, so no agent outlives its coordinator.
import { loadAdapter } from '../systems/registry.mjs'
import { now, pause, wallNow } from './clock.mjs'
import { serveThinly } from './serve.mjs'

const PROGRESS_MS = 20

const state = { finished: 0, reported: -1, firstAt: null, startDelays: [] }
let system = null
let worker = null

const commands = {
  async open({ name, connection }) {
    const adapter = await loadAdapter(name)
    system = await adapter.open(connection)
  },

  async work({ slots, lanes, jobMs }) {
    setInterval(reportProgress, PROGRESS_MS).unref()
    worker = await system.startWorker({ slots, lanes, onJob: handlerFor(jobMs) })
  },

  async startWorkflows({ shape, n }) {
    await system.startWorkflows(shape, n)
  },

  /** Start delays of every job that carried a time and was not a warm-up. */
  async startDelays() {
    return state.startDelays
  },

  /** Closed loop: each producer submits one job, waits for it to be committed, submits the next. */
  async produce({ producers, startAt, warmMs, durationMs }) {
    const [from, to] = [startAt + warmMs, startAt + warmMs + durationMs]
    await pause(startAt - now())
    const delays = []
    await Promise.all(
      Array.from({ length: producers }, async () => {
        for (let i = 0; now() < to; i++) {
          const before = now()
          await system.enqueueOne({ i })
          const after = now()
          if (before >= from && after <= to) delays.push(after - before)
        }
      }),
    )
    return delays
  },

  /** Submissions over HTTP, one per request. */
  async serve() {
    const { url, headers, pid } = await serveThinly((payload) => system.enqueueOne(payload))
    return { url, headers, pid }
  },

  /** Requests as fast as they are answered, over so many connections. */
  async fire({ url, headers, body, connections, duration }) {
    const { default: autocannon } = await import('autocannon')
    const result = await autocannon({
      url,
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body,
      connections,
      duration,
    })
    const statuses = Object.entries(result.statusCodeStats).map(([status, { count }]) => [status, count])
    return {
      perSecond: result.requests.average,
      total: result.requests.total,
      p50: result.latency.p50,
      p99: result.latency.p99,
      statuses: Object.fromEntries(statuses),
    }
  },

  /** One job at a time into an idle system, `gapMs` apart on average; the first `warmUp` are not counted. */
  async probe({ count, warmUp, gapMs }) {
    for (let i = 0; i < warmUp + count; i++) {
      await pause(gapMs * (0.5 + Math.random()))
      await system.enqueueOne({ i, warm: i < warmUp, t: now() })
    }
  },

  /**
   * Open loop: `rate` jobs a second whatever the system does, in ticks of 10 ms. Resolves when all are
   * committed, with how far behind its own timetable the producer fell.
   */
  async arrive({ rate, seconds, warmSeconds }) {
    const start = now()
    const total = Math.round(rate * (seconds + warmSeconds))
    const lags = []
    const calls = []
    for (let sent = 0; sent < total; ) {
      await pause(10)
      const due = Math.min(total, Math.floor(((now() - start) / 1000) * rate))
      if (due === sent) continue
      lags.push(now() - start - (sent / rate) * 1000)
      const warm = sent < rate * warmSeconds
      const payloads = Array.from({ length: due - sent }, () => payloadNow(warm))
      calls.push(system.enqueueMany(payloads))
      sent = due
    }
    await Promise.all(calls)
    return { total, lags }
  },

  /** Closed loop: as many jobs under way as said, each followed by another when its result is there. Tells how many ended. */
  async keepInFlight({ inFlight, seconds, warm }) {
    const until = now() + seconds * 1000
    let done = 0
    await Promise.all(
      Array.from({ length: inFlight }, async () => {
        while (now() < until) {
          await system.runOne({ warm, t: now() })
          done++
        }
      }),
    )
    return done
  },

  async stop() {
    await worker?.stop()
    reportProgress()
  },

  async close() {
    await system?.close()
  },
}

/** Warm-up jobs carry no wall time, so that the database side leaves them out too. */
function payloadNow(warm) {
  return warm ? { warm, t: now() } : { t: now(), w: wallNow() }
}

function handlerFor(jobMs) {
  return async (payload) => {
    const at = now()
    state.firstAt ??= at
    if (payload?.t !== undefined && payload.warm !== true) state.startDelays.push(at - payload.t)
    const ms = lengthOf(jobMs)
    if (ms > 0) await pause(ms)
    state.finished++
  }
}

/** A length in ms, or `{ upTo }` for one at random, in whole ms. */
function lengthOf(jobMs) {
  return typeof jobMs === 'number' ? jobMs : Math.floor(Math.random() * (jobMs.upTo + 1))
}

function reportProgress() {
  if (state.finished === state.reported) return
  state.reported = state.finished
  process.send({
    progress: { finished: state.finished, at: now(), firstAt: state.firstAt, rss: process.memoryUsage.rss() },
  })
}

process.on('message', async ({ id, command, argument }) => {
  try {
    process.send({ id, answer: (await commands[command](argument)) ?? null })
  } catch (error) {
    process.send({ id, error: error.stack ?? String(error) })
  }
})
process.on('disconnect', () => process.exit(0))
