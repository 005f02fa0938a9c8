import { MAX_LOAD_MS } from '../../model/budget.ts'
import type { ModelNews, ModelOnDevice } from '../../model/device.ts'
import type { Attempt } from '../attempt.ts'
import type { DeviceWatch } from '../devices/device-watch.ts'
import type { AnyModel } from './model.ts'
import { type CopyEvents, LoadedCopy } from './model-copy.ts'
import { ModelReport } from './model-report.ts'

export interface ModelKeeperOptions {
  /** By name. A model without an entry is loaded by the programs that need it. */
  readonly models: ReadonlyMap<string, AnyModel>
  readonly devices: Pick<DeviceWatch, 'usedNow' | 'lastUsed' | 'expectChange' | 'refresh'>
  readonly log: {
    info(fields: object, message: string): void
    error(fields: object, message: string): void
  }
  /** There is something to tell: run a cycle. */
  readonly onNews: () => void
}

/** Readings that differ by less are the same: drivers round. */
const NOISE_BYTES = 16 * 1024 * 1024

/**
 * The models of a worker: loads them for the first job that needs them, keeps them between jobs, and unloads them when the
 * dispatch asks, or the worker stops.
 *
 * A copy is a model on a set of devices. Each is loaded once at a time, copies on different devices at the same time. What has
 * happened to them is told with the next cycle.
 */
export class ModelKeeper implements CopyEvents {
  readonly #options: ModelKeeperOptions
  readonly #copies = new Map<string, LoadedCopy>()
  readonly #news = new ModelReport()
  /** By device, how often something has begun or ended there. What is measured over a change says nothing about one model. */
  readonly #changes = new Map<string, number>()
  readonly #busy = new Map<string, number>()
  /** Ends of copies of an earlier incarnation, by place: what comes there next waits for them. */
  readonly #before = new Map<string, Promise<void>>()
  /** What the last cycle heard: the answer that came with it may have been thought out before. */
  #lastTold: readonly ModelOnDevice[] = []

  constructor(options: ModelKeeperOptions) {
    this.#options = options
  }

  /** The copy for a job, whatever state it is in. It has to be left, after the job's ending has been put among those to report. */
  join(name: string, devices: readonly string[]): LoadedCopy {
    const copy = this.#copyFor(name, devices)
    copy.users += 1
    return copy
  }

  /**
   * Resolves when the copy is loaded, unless the job's programs do that themselves.
   *
   * @param self The job's own process loads it: hooks are not called.
   * @throws what `load` throws, for everybody who waits for it; the signal's reason when the job is stopped meanwhile.
   */
  async ready(copy: LoadedCopy, attempt: Attempt, self: boolean): Promise<void> {
    if (self || !this.#options.models.has(copy.model)) this.#tellOfOwn(copy)
    else if (!copy.isLoaded) {
      attempt.services.progress(0, `loading ${copy.model}`)
      const loading = copy.load()
      loading.catch(() => this.#tidy(copy))
      await untilStopped(loading, attempt.signal)
    }
    this.#count(copy.devices, 1)
  }

  /** @param wasReady Whether the job got as far as running. */
  leave(copy: LoadedCopy, wasReady: boolean): void {
    if (wasReady) this.#count(copy.devices, -1)
    copy.users -= 1
    this.#tidy(copy)
  }

  /** A job without a model begins (1) or ends (-1) on devices. */
  use(devices: readonly string[], by: 1 | -1): void {
    this.#count(devices, by)
  }

  /** A job of this model has completed. */
  ran(model: string, ms: number): void {
    this.#news.ran(model, ms)
  }

  /** Makes room, at once or as soon as the last job on it has ended. */
  unload(models: readonly ModelOnDevice[]): void {
    for (const { model, device } of models) {
      const copies = [...this.#copies.values()].filter(
        (copy) => copy.model === model && copy.devices.includes(device),
      )
      const wasTold = this.#lastTold.some((each) => each.model === model && each.device === device)
      if (copies.length === 0 && !wasTold) {
        this.#news.unloaded([{ model, device }])
        this.#options.onNews()
      }
      for (const copy of copies) {
        copy.leaving = true
        this.#tidy(copy)
      }
    }
  }

  /** What is to be told with the next cycle. Call `told()` with what became of it. */
  takeNews(): ModelNews | undefined {
    return this.#news.take()
  }

  /** @param taken False when it has to be told again. */
  told(taken: boolean): void {
    const arrived = this.#news.settle(taken)
    this.#lastTold = arrived?.unloaded ?? []
    // Whatever was read before a load was known does not count as seen with it: until the next reading it would count twice.
    if (arrived !== undefined && arrived.loaded.length > 0) void this.#options.devices.refresh()
  }

  get hasNews(): boolean {
    return !this.#news.isEmpty
  }

  /** The worker is another one now, and nothing is charged to it: what lies in memory goes, and nobody is told. */
  startOver(): void {
    this.#news.clear()
    for (const [key, copy] of this.#copies) {
      copy.silent = true
      copy.leaving = true
      this.#copies.delete(key)
      this.#before.set(key, this.#end(copy))
    }
  }

  /** Unloads everything, jobs or not. Resolves when it is done, or the time is over. */
  async stop(withinMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const copies = [...this.#copies.values()]
    for (const copy of copies) copy.abortLoad(new Error('the worker is stopping'))
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, withinMs)
    })
    await Promise.race([
      Promise.all([...copies.map((copy) => copy.unload()), ...this.#before.values()]),
      late,
    ])
    clearTimeout(timer)
  }

  async loading(copy: LoadedCopy): Promise<(loadMs: number) => Promise<void>> {
    const { devices, log } = this.#options
    const earlier = devices.lastUsed
    const stamp = this.#stampOf(copy)
    const before = stamp === undefined ? undefined : await devices.usedNow()
    return async (loadMs) => {
      const after = before === undefined ? undefined : await devices.usedNow()
      const observed: Record<string, number> = {}
      for (const device of copy.devices) {
        const [was, is, once] = [before?.get(device), after?.get(device), earlier.get(device)]
        if (was === undefined || is === undefined || this.#stampOf(copy) !== stamp) continue
        const moved = once !== undefined && Math.abs(once - was) > NOISE_BYTES
        if (!moved && is > was) observed[device] = is - was
      }
      log.info({ model: copy.model, devices: copy.devices, ms: Math.round(loadMs) }, 'loaded a model')
      copy.told = true
      if (copy.silent) return
      this.#news.loaded({
        model: copy.model,
        devices: copy.devices,
        loadMs: Math.min(loadMs, MAX_LOAD_MS),
        observed,
      })
      this.#options.onNews()
    }
  }

  /**
   * Not told before a reading of after it is known: what was read while the model was being loaded, or before, would pass for
   * free memory, and freed memory shows with a delay.
   */
  async unloaded(copy: LoadedCopy, wasLoaded: boolean): Promise<void> {
    this.#bump(copy.devices)
    if (wasLoaded) await this.#options.devices.expectChange()
    const key = keyOf(copy.model, copy.devices)
    if (this.#copies.get(key) === copy) this.#copies.delete(key)
    if (copy.silent) return
    this.#options.log.info({ model: copy.model, devices: copy.devices }, 'unloaded a model')
    this.#news.unloaded(copy.devices.map((device) => ({ model: copy.model, device })))
    this.#options.onNews()
  }

  failed(copy: LoadedCopy, what: string, error: unknown): void {
    this.#options.log.error({ model: copy.model, devices: copy.devices, error }, `a model ${what}`)
  }

  #copyFor(model: string, unsorted: readonly string[]): LoadedCopy {
    const devices = [...unsorted].sort()
    const key = keyOf(model, devices)
    const there = this.#copies.get(key)
    if (there !== undefined && !there.isGone) return there
    const before = there?.unload() ?? this.#before.get(key)
    this.#before.delete(key)
    const copy = new LoadedCopy(model, devices, this.#options.models.get(model), this, before)
    this.#copies.set(key, copy)
    return copy
  }

  #tellOfOwn(copy: LoadedCopy): void {
    if (copy.told) return
    copy.told = true
    this.#news.loaded({ model: copy.model, devices: copy.devices, loadMs: null, observed: {} })
    this.#options.onNews()
  }

  /** What has to be done once nobody uses it. */
  #tidy(copy: LoadedCopy): void {
    if (copy.users > 0 || copy.isGone) return
    if (copy.isLoading && !copy.leaving) copy.abortLoad(new Error('no job waits for the model any more'))
    else if (copy.leaving || !copy.told) void this.#end(copy)
  }

  #end(copy: LoadedCopy): Promise<void> {
    copy.abortLoad(new Error('the model must make room for another'))
    this.#bump(copy.devices)
    return copy.unload()
  }

  #count(devices: readonly string[], by: 1 | -1): void {
    this.#bump(devices)
    for (const device of devices) this.#busy.set(device, (this.#busy.get(device) ?? 0) + by)
  }

  #bump(devices: readonly string[]): void {
    for (const device of devices) this.#changes.set(device, (this.#changes.get(device) ?? 0) + 1)
  }

  /** Changes when something else happens on its devices. `undefined`: something does already. */
  #stampOf(copy: LoadedCopy): string | undefined {
    const moving = [...this.#copies.values()].some(
      (other) => other !== copy && (other.isLoading || other.isGone) && shareDevice(other, copy),
    )
    if (moving || copy.devices.some((device) => (this.#busy.get(device) ?? 0) > 0)) return undefined
    return copy.devices.map((device) => this.#changes.get(device) ?? 0).join(',')
  }
}

function shareDevice(a: LoadedCopy, b: LoadedCopy): boolean {
  return a.devices.some((device) => b.devices.includes(device))
}

function keyOf(model: string, devices: readonly string[]): string {
  return JSON.stringify([model, ...devices])
}

function untilStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stopped = () => reject(signal.reason)
    if (signal.aborted) stopped()
    else signal.addEventListener('abort', stopped, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stopped))
  })
}
