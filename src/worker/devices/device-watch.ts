import { messageOf } from '../../errors.ts'
import type { DeviceBudget, DeviceReading } from '../../model/device.ts'
import type { JobSource } from '../job-source.ts'
import { type GpuAnswer, GpuReader } from './gpu-reader.ts'
import { type GpuSnapshot, learnGpus, NO_SNAPSHOT, needsGpus, offerDevices } from './offer-devices.ts'

export interface DeviceWatchOptions {
  readonly source: Pick<JobSource, 'reportDevices'>
  readonly host: string
  readonly log: {
    info(fields: object, message: string): void
    warn(fields: object, message: string): void
  }
  readonly reader?: Pick<GpuReader, 'read'>
  /** What has been reported may let jobs run: look for them. */
  readonly onReport?: () => void
}

const READ_MS = 2000
/** Freed memory shows after a moment (0.13 s after a kill, where it was measured; 1.5 s is reported of others). */
const SOON_MS = 250
const SOON_FOR_MS = 5000
/** What a reading may take, and a little more for telling it. */
const STOP_MS = 2500
/** How often somebody who has nothing to read asks whether there are budgets with devices now. */
const ASK_MS = 30_000

const NOTHING_REPORTED = { text: '', at: Number.NEGATIVE_INFINITY }

/**
 * Reads the devices of this machine again and again and reports them.
 *
 * It reads every 2 s, and for 5 s after `expectChange()` every 250 ms. While `nvidia-smi` hangs or fails, nothing new is
 * told, and what was measured gets old with those who read it. Once it is gone, the GPUs it showed are lost.
 */
export class DeviceWatch {
  readonly #options: DeviceWatchOptions
  readonly #reader: Pick<GpuReader, 'read'>
  #budgets: readonly DeviceBudget[] = []
  #snapshot: GpuSnapshot = NO_SNAPSHOT
  #reading: Promise<GpuAnswer> | undefined
  #soonUntil = 0
  #reported: { readonly text: string; readonly at: number } = NOTHING_REPORTED
  #trouble = ''
  /** The last report did not arrive. */
  #unheard = false
  #timer: NodeJS.Timeout | undefined
  #round: Promise<void> | undefined
  #again = false
  #stopped = false

  constructor(options: DeviceWatchOptions) {
    this.#options = options
    this.#reader = options.reader ?? new GpuReader()
  }

  start(): void {
    this.#lookNow()
  }

  /** Resolves when nothing more is read or told, or that takes too long: a report that comes late does no harm. */
  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, STOP_MS)
    })
    await Promise.race([this.#round, late])
    clearTimeout(timer)
  }

  /**
   * Memory is being given back: look now, and more often for a while. Resolves when a reading that was begun after the call is
   * reported, or cannot be had.
   */
  async expectChange(): Promise<void> {
    this.#soonUntil = performance.now() + SOON_FOR_MS
    await this.refresh()
  }

  /** Reads and reports now, also what has not changed: its time counts. Resolves when that is done, or cannot be. */
  async refresh(): Promise<void> {
    // What is under way may have been read before the call.
    await this.#round
    this.#reported = NOTHING_REPORTED
    this.#lookNow()
    await this.#round
  }

  /** Whoever heard the reports is another one now: tell everything again. */
  startOver(): void {
    this.#reported = NOTHING_REPORTED
    this.#lookNow()
  }

  /**
   * How much of each GPU is used now, by uuid; a reading is made for it. `undefined` when that is not known: no GPU is
   * offered, or the last reading failed, and nobody should wait for another that may.
   */
  async usedNow(): Promise<ReadonlyMap<string, number> | undefined> {
    if (this.#snapshot.state !== 'known' || this.#trouble !== '' || this.#stopped) return undefined
    const answer = await this.#read()
    return answer.kind === 'read' ? this.lastUsed : undefined
  }

  /** As the last reading had it. */
  get lastUsed(): ReadonlyMap<string, number> {
    const measured = this.#snapshot.gpus.filter((gpu) => gpu.used !== null && !gpu.lost)
    return new Map(measured.map((gpu) => [gpu.uuid, gpu.used!]))
  }

  #lookNow(): void {
    if (this.#stopped) return
    this.#again = true
    clearTimeout(this.#timer)
    this.#round ??= this.#lookUntilDone().finally(() => {
      this.#round = undefined
      if (this.#again) this.#lookNow()
      else this.#rest()
    })
  }

  async #lookUntilDone(): Promise<void> {
    while (this.#again && !this.#stopped) {
      this.#again = false
      // Somebody who knows of no budget asks first: most systems have none, and then no program is started.
      if (this.#budgets.length === 0) await this.#report([])
      if (this.#budgets.length === 0 || this.#stopped) continue
      if (needsGpus(this.#budgets)) await this.#read()
      if (!this.#stopped) await this.#reportChanges()
    }
  }

  #rest(): void {
    if (this.#stopped) return
    const soon = performance.now() < this.#soonUntil
    let wait = READ_MS
    if (soon) wait = SOON_MS
    else if (this.#unheard) wait = READ_MS
    else if (this.#budgets.length === 0 || !needsGpus(this.#budgets) || this.#snapshot.state === 'none')
      wait = ASK_MS
    this.#timer = setTimeout(() => this.#lookNow(), wait)
    this.#timer.unref()
  }

  /** One reading at a time; who asks during one gets its answer. */
  #read(): Promise<GpuAnswer> {
    this.#reading ??= this.#reader
      .read()
      .then((answer) => {
        this.#learn(answer)
        return answer
      })
      .finally(() => {
        this.#reading = undefined
      })
    return this.#reading
  }

  #learn(answer: GpuAnswer): void {
    const { log } = this.#options
    const before = new Set(this.#snapshot.gpus.filter((gpu) => gpu.lost).map((gpu) => gpu.uuid))
    this.#snapshot = learnGpus(this.#snapshot, answer, performance.now())
    const { gpus } = this.#snapshot
    const lost = gpus.filter((gpu) => gpu.lost && !before.has(gpu.uuid))
    if (answer.kind === 'absent' && lost.length > 0)
      log.warn(
        { devices: lost.map(({ uuid }) => uuid) },
        'nvidia-smi disappeared from this machine: its GPUs get no new work until it is available again',
      )
    else
      for (const { uuid, name } of lost)
        log.warn({ device: uuid, name }, 'a GPU disappeared: it gets no new work')
    for (const { uuid, name } of gpus.filter((gpu) => !gpu.lost && before.has(gpu.uuid)))
      log.info({ device: uuid, name }, 'a GPU is available again')
    const trouble = answer.kind === 'failed' ? answer.why : ''
    if (trouble !== '' && this.#trouble === '')
      log.warn({ error: trouble }, 'the GPUs cannot be read; holdings are counted, but use is not measured')
    if (answer.kind === 'read' && this.#trouble !== '') log.info({}, 'the GPUs can be read again')
    this.#trouble = trouble
  }

  async #reportChanges(): Promise<void> {
    const { host } = this.#options
    const now = performance.now()
    const readings = offerDevices(this.#budgets, host, this.#snapshot, process.env.CUDA_VISIBLE_DEVICES, now)
    const text = JSON.stringify(readings.map(({ ageMs: _, ...rest }) => rest))
    const changed = text !== this.#reported.text
    // Of a measurement the time counts too: what has begun since is taken for not yet in it.
    const repeatMs = readings.some(({ free }) => free !== null) ? READ_MS : ASK_MS
    if (!changed && now - this.#reported.at < repeatMs - SOON_MS) return
    if (!(await this.#report(readings))) return
    this.#reported = { text, at: now }
    if (changed) this.#options.onReport?.()
  }

  /** False when it did not arrive; the next round tells it again. */
  async #report(readings: readonly DeviceReading[]): Promise<boolean> {
    try {
      const budgets = await this.#options.source.reportDevices(readings)
      if (JSON.stringify(budgets) !== JSON.stringify(this.#budgets) && this.#budgets.length > 0)
        this.#again = true
      this.#budgets = budgets
      this.#unheard = false
      return true
    } catch (error) {
      if (!this.#unheard && !this.#stopped)
        this.#options.log.warn(
          { error: messageOf(error) },
          'could not report the devices; will report them again',
        )
      this.#unheard = true
      return false
    }
  }
}
