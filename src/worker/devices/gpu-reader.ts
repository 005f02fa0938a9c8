import { type ChildProcess, spawn } from 'node:child_process'
import { messageOf } from '../../errors.ts'
import { type Gpu, parseGpus, parseInstances, parseLostBuses, parseUnknownField } from './parse-gpus.ts'

export type GpuAnswer =
  /** `lostBuses`: the driver calls these lost without listing them. */
  | { readonly kind: 'read'; readonly gpus: readonly Gpu[]; readonly lostBuses: readonly string[] }
  /** There is no such program: this machine has no GPUs that could be read. */
  | { readonly kind: 'absent' }
  /** It hangs, or failed and told nothing. */
  | { readonly kind: 'failed'; readonly why: string }

const FIELDS = [
  'index',
  'uuid',
  'name',
  'pci.bus_id',
  'memory.total',
  'memory.used',
  'memory.free',
  'mig.mode.current',
] as const
/** A call took 24 ms on the machine it was measured on. */
const TIMEOUT_MS = 2000
const MAX_OUTPUT = 1024 * 1024

interface Ran {
  readonly code: number | null
  readonly output: string
  readonly error: NodeJS.ErrnoException | undefined
  readonly timedOut: boolean
}

/**
 * Asks `nvidia-smi` for the GPUs of this machine.
 *
 * A call that takes longer than the limit is killed and counts as failed. One that cannot be killed, because the driver holds
 * it, is left behind; while it is there no other is started, so that they do not pile up.
 */
export class GpuReader {
  readonly #program: string
  readonly #timeoutMs: number
  #fields: readonly string[] = FIELDS
  #hanging: ChildProcess | undefined

  constructor(options: { readonly program?: string; readonly timeoutMs?: number } = {}) {
    this.#program = options.program ?? 'nvidia-smi'
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS
  }

  async read(): Promise<GpuAnswer> {
    if (this.#hanging !== undefined)
      return { kind: 'failed', why: `an earlier call of ${this.#program} hangs and cannot be killed` }
    const ran = await this.#run([`--query-gpu=${this.#fields.join(',')}`, '--format=csv'])
    const unknown = parseUnknownField(ran.output)
    if (unknown !== undefined && this.#fields.includes(unknown) && unknown !== 'uuid') {
      // An older driver: what it does not know is done without.
      this.#fields = this.#fields.filter((field) => field !== unknown)
      return this.read()
    }
    const failure = this.#failureOf(ran)
    if (failure !== undefined) return failure
    const gpus = parseGpus(ran.output)
    const lostBuses = parseLostBuses(ran.output)
    if (ran.code !== 0 && gpus.length === 0 && lostBuses.length === 0)
      return {
        kind: 'failed',
        why: `${this.#program} exited with code ${ran.code}: ${firstLine(ran.output)}`,
      }
    if (!gpus.some((gpu) => gpu.mig)) return { kind: 'read', gpus, lostBuses }
    return this.#withInstances(gpus, lostBuses)
  }

  async #withInstances(gpus: readonly Gpu[], lostBuses: readonly string[]): Promise<GpuAnswer> {
    const ran = await this.#run(['-L'])
    const failure = this.#failureOf(ran)
    if (failure !== undefined) return failure
    if (ran.code !== 0)
      return {
        kind: 'failed',
        why: `${this.#program} -L exited with code ${ran.code}: ${firstLine(ran.output)}`,
      }
    return {
      kind: 'read',
      gpus: [...gpus.filter((gpu) => !gpu.mig), ...parseInstances(ran.output)],
      lostBuses,
    }
  }

  #failureOf({ error, timedOut }: Ran): GpuAnswer | undefined {
    if (error?.code === 'ENOENT') return { kind: 'absent' }
    if (error !== undefined)
      return { kind: 'failed', why: `cannot start ${this.#program}: ${messageOf(error)}` }
    if (timedOut)
      return { kind: 'failed', why: `${this.#program} gave no answer within ${this.#timeoutMs} ms` }
    return undefined
  }

  #run(args: readonly string[]): Promise<Ran> {
    return new Promise((resolve) => {
      let output = ''
      let timedOut = false
      const take = (chunk: string) => {
        if (output.length < MAX_OUTPUT) output += chunk
      }
      const finish = (code: number | null, error?: NodeJS.ErrnoException) => {
        clearTimeout(timer)
        resolve({ code, output, error, timedOut })
      }
      const child = spawn(this.#program, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true })
      child.stdout.setEncoding('utf8').on('data', take)
      child.stderr.setEncoding('utf8').on('data', take)
      const timer = setTimeout(() => {
        timedOut = true
        this.#giveUp(child)
        finish(null)
      }, this.#timeoutMs)
      child.on('error', (error) => finish(null, error))
      child.on('close', (code) => finish(code))
    })
  }

  /** Kills it with all it has started. Nobody waits for its end: it may stand in the driver for ever. */
  #giveUp(child: ChildProcess): void {
    if (child.exitCode === null && child.signalCode === null) {
      this.#hanging = child
      child.once('exit', () => {
        this.#hanging = undefined
      })
    }
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    } catch {
      // It has ended meanwhile.
    }
    child.stdout?.destroy()
    child.stderr?.destroy()
    child.unref()
  }
}

function firstLine(text: string): string {
  return text.trim().split('\n')[0]?.slice(0, 200) || 'it printed nothing'
}
