import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Model, model } from '../../src/index.ts'
import type { Gate } from './gate.ts'
import { isAlive } from './processes.ts'

const PROGRAM = fileURLToPath(new URL('./programs/nvidia-smi.sh', import.meta.url))
const MIB = 1024 ** 2

export interface FakeGpu {
  readonly uuid: string
  readonly name?: string
  readonly totalMiB: number
  /** What the driver keeps. Default 0. */
  readonly keptMiB?: number
}

/**
 * GPUs that exist in a folder: a program `nvidia-smi` on `PATH` shows them, to this process and to those it starts. Who uses
 * one leaves a file there, which counts while that process lives.
 */
export class FakeGpus {
  /** Put it before the others in `PATH`. */
  readonly path: string
  readonly folder: string
  #gpus: readonly FakeGpu[]
  #taken = 0

  constructor(gpus: readonly FakeGpu[]) {
    const root = mkdtempSync(join(tmpdir(), 'fake-gpus-'))
    this.folder = join(root, 'gpus')
    this.path = join(root, 'bin')
    mkdirSync(this.path)
    mkdirSync(join(this.folder, 'taken'), { recursive: true })
    copyFileSync(PROGRAM, join(this.path, 'nvidia-smi'))
    chmodSync(join(this.path, 'nvidia-smi'), 0o755)
    this.#gpus = gpus
    this.#write()
  }

  /** What a process needs in its environment to see them. */
  get environment(): { readonly PATH: string; readonly FAKE_GPUS: string } {
    return { PATH: `${this.path}${delimiter}${process.env.PATH ?? ''}`, FAKE_GPUS: this.folder }
  }

  /** This process and those it starts see them from now on. Undone by the function it gives. */
  install(): () => void {
    const { PATH, FAKE_GPUS } = process.env
    Object.assign(process.env, this.environment)
    return () => {
      process.env.PATH = PATH
      if (FAKE_GPUS === undefined) delete process.env.FAKE_GPUS
      else process.env.FAKE_GPUS = FAKE_GPUS
    }
  }

  set mode(mode: 'works' | 'hang' | 'exit9' | 'na' | 'lost') {
    writeFileSync(join(this.folder, 'mode'), mode)
  }

  /** False: there is no such program any more, as without its driver. */
  set installed(there: boolean) {
    const program = join(this.path, 'nvidia-smi')
    renameSync(there ? `${program}.away` : program, there ? program : `${program}.away`)
  }

  /** The columns it prints, whatever it is asked for. */
  set columns(columns: readonly string[]) {
    writeFileSync(join(this.folder, 'columns'), columns.join(','))
  }

  /** As an older driver, which has not heard of MIG. */
  set knowsMig(knows: boolean) {
    if (knows) rmSync(join(this.folder, 'no-mig'), { force: true })
    else writeFileSync(join(this.folder, 'no-mig'), '')
  }

  /** The arguments of the calls so far. */
  get calls(): readonly string[] {
    try {
      return readFileSync(join(this.folder, 'calls'), 'utf8').trim().split('\n')
    } catch {
      return []
    }
  }

  remove(uuid: string): void {
    this.#gpus = this.#gpus.filter((gpu) => gpu.uuid !== uuid)
    this.#write()
  }

  add(gpu: FakeGpu): void {
    this.#gpus = [...this.#gpus, gpu]
    this.#write()
  }

  /** Uses memory, as a model or a stranger does. Gives what frees it. */
  take(uuid: string, bytes: number): () => void {
    return takeMemory(this.folder, uuid, bytes, ++this.#taken)
  }

  /** What processes that live use of it. */
  used(uuid: string): number {
    const taken = join(this.folder, 'taken', uuid)
    const files = existsSync(taken) ? readdirSync(taken) : []
    const sizes = files
      .filter((file) => isAlive(Number(file.split('-')[0])))
      .map((file) => sizeIn(join(taken, file)))
    return sizes.reduce((sum, each) => sum + each, 0)
  }

  /**
   * A model of this size. Loading it takes memory on its devices, and fails as CUDA does where there is too little; its memory
   * is free some time after `unload` has said so.
   */
  model(name: string, bytes: number, options: FakeModelOptions = {}): Model<FakeModelValue> {
    const { loads = [], unloads = [], gate, lagMs = 0 } = options
    return model({
      name,
      load: async ({ devices, signal }) => {
        loads.push(`${name} ${devices.join(' ')}`)
        const frees: (() => void)[] = []
        try {
          for (const device of devices) frees.push(this.#takeOrFail(device, bytes))
          await gate?.pass(`${name} ${devices.join(' ')}`)
          signal.throwIfAborted()
        } catch (error) {
          for (const free of frees) free()
          throw error
        }
        return { name, devices, free: () => frees.map((each) => each()) }
      },
      unload: ({ free }, { devices }) => {
        unloads.push(`${name} ${devices.join(' ')}`)
        if (lagMs === 0) free()
        else setTimeout(free, lagMs)
      },
    })
  }

  #takeOrFail(uuid: string, bytes: number): () => void {
    const gpu = this.#gpus.find((each) => each.uuid === uuid)
    if (gpu === undefined) throw new Error(`there is no GPU ${uuid}`)
    const left = (gpu.totalMiB - (gpu.keptMiB ?? 0)) * MIB - this.used(uuid)
    if (left < bytes) throw new Error(`CUDA error: out of memory (${left / MIB} MiB free)`)
    return this.take(uuid, bytes)
  }

  delete(): void {
    rmSync(join(this.folder, '..'), { recursive: true, force: true })
  }

  #write(): void {
    const lines = this.#gpus.map(({ uuid, name = 'Fake GPU', totalMiB, keptMiB = 0 }, index) =>
      [index, uuid, name, totalMiB, keptMiB].join('|'),
    )
    writeFileSync(join(this.folder, 'gpus'), `${lines.join('\n')}\n`)
  }
}

export interface FakeModelOptions {
  /** Where it notes its loads and unloads: `NAME DEVICE...`. */
  readonly loads?: string[]
  readonly unloads?: string[]
  /** Holds up its loads. */
  readonly gate?: Gate
  readonly lagMs?: number
}

export interface FakeModelValue {
  readonly name: string
  readonly devices: readonly string[]
  readonly free: () => unknown
}

function sizeIn(file: string): number {
  try {
    return Number(readFileSync(file, 'utf8')) * MIB
  } catch {
    return 0
  }
}

function takeMemory(folder: string, uuid: string, bytes: number, number: number): () => void {
  const taken = join(folder, 'taken', uuid)
  mkdirSync(taken, { recursive: true })
  const file = join(taken, `${process.pid}-${number}`)
  writeFileSync(file, String(Math.round(bytes / MIB)))
  return () => rmSync(file, { force: true })
}
