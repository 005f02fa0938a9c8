import { messageOf } from '../../errors.ts'
import { MAX_TIMER_MS } from '../../model/limits.ts'
import type { AnyModel } from './model.ts'

/** A hook that does not end would keep its devices for ever. What is not free by then shows in what is measured. */
const UNLOAD_MS = 60_000

export interface CopyEvents {
  /** It is about to be loaded. What it gives is called when it is, with how long that took: who measures reads before and after. */
  loading(copy: LoadedCopy): Promise<(loadMs: number) => Promise<void>>
  /** Its memory is free, or was never taken. */
  unloaded(copy: LoadedCopy, wasLoaded: boolean): Promise<void>
  failed(copy: LoadedCopy, what: string, error: unknown): void
}

/**
 * A model on its devices, in this process.
 *
 *     empty -> loading -> loaded -> unloading -> gone
 *        \________`-> empty, when the load failed
 *
 * It has users while jobs wait for it or run with it. Nobody unloads it under them.
 */
export class LoadedCopy {
  readonly model: string
  /** Sorted. */
  readonly devices: readonly string[]
  /** Jobs that wait for it or run with it. */
  users = 0
  /** It has to make room as soon as it has no users. */
  leaving = false
  /** The dispatch was told that it is there. */
  told = false
  /** Nobody is to hear of its end: it belongs to an incarnation of the worker that is no more. */
  silent = false
  readonly #events: CopyEvents
  readonly #hooks: AnyModel | undefined
  readonly #before: Promise<void> | undefined
  #state: 'empty' | 'loading' | 'loaded' | 'unloading' | 'gone' = 'empty'
  #value: unknown
  #loading: Promise<void> | undefined
  #unloading: Promise<void> | undefined
  #controller: AbortController | undefined

  /** @param before The end of another copy in the same place, which has to be gone first. */
  constructor(
    model: string,
    devices: readonly string[],
    hooks: AnyModel | undefined,
    events: CopyEvents,
    before?: Promise<void>,
  ) {
    this.model = model
    this.devices = devices
    this.#hooks = hooks
    this.#events = events
    this.#before = before
  }

  get isLoaded(): boolean {
    return this.#state === 'loaded'
  }

  get isLoading(): boolean {
    return this.#state === 'loading'
  }

  /** Its memory is being given back, or has been. */
  get isGone(): boolean {
    return this.#state === 'unloading' || this.#state === 'gone'
  }

  /** What its `load` gave. */
  get value(): unknown {
    return this.#value
  }

  /** Loads it, once for all who ask. Rejects with what `load` threw. */
  load(): Promise<void> {
    this.#loading ??= this.#load().finally(() => {
      this.#loading = undefined
    })
    return this.#loading
  }

  /** Nobody waits for it any more, or the worker stops: asks `load` to give up. What it still loads is kept. */
  abortLoad(why: Error): void {
    this.#controller?.abort(why)
  }

  /** Unloads it, after a load that is under way. Never rejects. */
  unload(): Promise<void> {
    this.#unloading ??= this.#unload()
    return this.#unloading
  }

  async #load(): Promise<void> {
    if (this.#state === 'loaded') return
    const hooks = this.#hooks!
    this.#state = 'loading'
    const controller = new AbortController()
    this.#controller = controller
    let timer: NodeJS.Timeout | undefined
    try {
      await this.#before
      const loaded = await this.#events.loading(this)
      const begun = performance.now()
      const late = new Promise<never>((_, reject) => {
        const error = new Error(`model ${this.model} was not loaded within ${hooks.timeoutMs} ms`)
        timer = setTimeout(
          () => {
            controller.abort(error)
            reject(error)
          },
          Math.min(hooks.timeoutMs, MAX_TIMER_MS),
        )
      })
      controller.signal.throwIfAborted()
      const value = Promise.resolve(hooks.load({ devices: this.devices, signal: controller.signal }))
      this.#value = await Promise.race([value, late]).catch((error: unknown) => {
        this.#dropWhenLate(value)
        throw error
      })
      await loaded(performance.now() - begun)
      this.#state = 'loaded'
    } catch (error) {
      this.#state = 'empty'
      throw error
    } finally {
      clearTimeout(timer)
      this.#controller = undefined
    }
  }

  /** It was given up and came after all: nobody would ever unload it. */
  #dropWhenLate(value: Promise<unknown>): void {
    value.then(
      (late) => this.#runUnload(late),
      () => {},
    )
  }

  async #unload(): Promise<void> {
    await this.#loading?.catch(() => {})
    const wasLoaded = this.#state === 'loaded'
    this.#state = 'unloading'
    if (wasLoaded) await this.#runUnload(this.#value)
    this.#value = undefined
    this.#state = 'gone'
    await this.#events.unloaded(this, wasLoaded)
  }

  async #runUnload(value: unknown): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    try {
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error(`unload did not end within ${UNLOAD_MS} ms`)), UNLOAD_MS)
        timer.unref()
      })
      await Promise.race([Promise.resolve(this.#hooks?.unload(value, { devices: this.devices })), late])
    } catch (error) {
      this.#events.failed(this, 'could not be unloaded', messageOf(error))
    } finally {
      clearTimeout(timer)
    }
  }
}
