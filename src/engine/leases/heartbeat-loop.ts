import { writeSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { messageOf } from '../../errors.ts'
import type { BlockedLoop } from '../../model/blocked-loop.ts'
import type { FromThread, ThreadData, ToThread } from './heartbeat.ts'

// What runs in the thread that says "this worker lives". It has a connection and an event loop of its own, so neither a
// busy pool nor a task that blocks the main loop stops it. It also watches the main loop and tells which tasks ran while it
// stood still.

const { heartbeatMs, taskNames, shared, ...data } = workerData as ThreadData
const counters = new Int32Array(shared)
const goodAt = new BigInt64Array(data.goodAt)
/** The main loop counts as blocked after this long without a tick; it ticks every 100 ms. */
const BLOCKED_MS = 2000
const TELL_AGAIN_MS = 10_000
/** Beats report a main loop that has been blocked for longer than this: then other jobs and cancels wait noticeably. */
const REPORT_MS = Math.max(BLOCKED_MS, heartbeatMs)
/** Silence must be noticed between `stale - heartbeat` and `stale`, so it is looked for several times a heartbeat. */
const WATCH_MS = Math.min(250, heartbeatMs / 4)

/** Sends heartbeats. */
export interface Beats {
  /** Renews the leases. `undefined`: the worker has been declared dead. Fails within one heartbeat, also while it connects. */
  beat(workerId: string, blocked: BlockedLoop | undefined): Promise<unknown>
  /** Whether a heartbeat failed with a response, so that the network works. */
  isAnswer?(error: unknown): boolean
  close(): Promise<void>
}

let beats: Beats
let watch: NodeJS.Timeout
let { workerId } = workerData as ThreadData
let lastAnswer = performance.now() - silentMs()
let timer: NodeJS.Timeout | undefined
let beating = false
/** Requested during a heartbeat, which may have missed what is to be seen. */
let beatAgain = false
let lastTick = counters[0]!
let tickedAt = performance.now()
let toldBlockedAt = -TELL_AGAIN_MS
let watchedAt = performance.now()
/** Whether the latest heartbeat reported a blocked event loop. */
let reported = false

/** On a busy machine, seconds may pass between the registration and the start of this thread. */
function silentMs(): number {
  return Number(process.hrtime.bigint() - Atomics.load(goodAt, 0)) / 1e6
}

function send(message: FromThread): void {
  parentPort!.postMessage(message)
}

function sendMissed(error: string | null): void {
  send({ kind: 'missed', silentMs: silentMs(), unansweredMs: performance.now() - lastAnswer, error })
}

async function beatOnce(): Promise<void> {
  if (beating) {
    beatAgain = true
    return
  }
  beating = true
  beatAgain = false
  // The lease runs from before the beat was sent: by then the database cannot have renewed it yet.
  const sentAt = performance.now()
  const sent = process.hrtime.bigint()
  const id = workerId
  try {
    const answer = await beats.beat(id, blockedLoop())
    Atomics.store(goodAt, 0, sent)
    lastAnswer = sentAt
    if (id === workerId) send({ kind: 'beat', workerId: id, beat: answer ?? null, sent })
  } catch (error) {
    if (beats.isAnswer?.(error)) lastAnswer = sentAt
    sendMissed(messageOf(error))
  } finally {
    beating = false
    if (beatAgain) void beatOnce()
  }
}

function schedule(): void {
  clearTimeout(timer)
  // A little early at random: workers that started together do not stay together.
  timer = setTimeout(
    () => {
      void beatOnce()
      schedule()
    },
    heartbeatMs * (0.8 + 0.2 * Math.random()),
  )
}

/** Straight to the file: `process.stderr` of a thread goes through the main loop, which is what stands still. */
function shout(line: string): void {
  try {
    writeSync(2, line)
  } catch {
    // No process reads it. Heartbeats continue.
  }
}

/** The main loop, where it has been blocked for so long that somebody should know. */
function blockedLoop(): BlockedLoop | undefined {
  const forMs = performance.now() - tickedAt
  if (forMs <= REPORT_MS || counters[0] !== lastTick) return undefined
  return { forMs: Math.round(forMs), tasks: tasksInline() }
}

function tasksInline(): string[] {
  return taskNames.filter((_, index) => counters[index + 1]! > 0)
}

function watchMainLoop(): void {
  const now = performance.now()
  const unwatchedMs = now - watchedAt
  watchedAt = now
  // This thread stood still too, so nothing is known about the main loop: it is given its time from now on.
  if (unwatchedMs > BLOCKED_MS) {
    tickedAt = now
    send({ kind: 'paused', forMs: unwatchedMs })
  }
  if (counters[0] !== lastTick) {
    lastTick = counters[0]!
    tickedAt = now
    toldBlockedAt = -TELL_AGAIN_MS
  } else if (now - tickedAt > BLOCKED_MS && now - toldBlockedAt > TELL_AGAIN_MS) {
    toldBlockedAt = now
    const tasks = tasksInline()
    send({ kind: 'blocked', forMs: now - tickedAt, tasks })
    shout(
      `sluice: the event loop has been blocked for ${Math.round(now - tickedAt)} ms; running inline: ${tasks.join(', ') || 'no task'}\n`,
    )
  }
  if ((blockedLoop() !== undefined) !== reported) {
    reported = !reported
    void beatOnce()
  }
  if (silentMs() > heartbeatMs) sendMissed(null)
}

function hear(message: ToThread): void {
  if (message.kind === 'now') void beatOnce()
  else if (message.kind === 'worker') {
    workerId = message.workerId
    void beatOnce()
  } else {
    clearTimeout(timer)
    clearInterval(watch)
    // A connection that is only just being made would keep the thread alive: end it, whatever is under way.
    void beats.close().finally(() => process.exit(0))
  }
}

/** Beats until the thread is told to stop. Once a thread. */
export function keepBeating(how: Beats): void {
  beats = how
  parentPort!.on('message', hear)
  watch = setInterval(watchMainLoop, WATCH_MS)
  schedule()
  void beatOnce()
}
