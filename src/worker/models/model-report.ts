import type { LoadedModel, ModelNews, ModelOnDevice } from '../../model/device.ts'

/** What is to be told of models: kept until it has arrived, in the order it happened. */
export class ModelReport {
  #loaded: LoadedModel[] = []
  #unloaded: ModelOnDevice[] = []
  #ran = new Map<string, { jobs: number; totalMs: number }>()
  #sent: ModelNews | undefined

  get isEmpty(): boolean {
    return this.#loaded.length === 0 && this.#unloaded.length === 0 && this.#ran.size === 0
  }

  loaded(model: LoadedModel): void {
    this.#loaded.push(model)
  }

  /** What was loaded before in that place need not be told any more. */
  unloaded(models: readonly ModelOnDevice[]): void {
    const isOver = (each: LoadedModel) =>
      models.some(({ model, device }) => each.model === model && each.devices.includes(device))
    this.#loaded = this.#loaded.filter((each) => !isOver(each))
    this.#unloaded.push(...models)
  }

  ran(model: string, ms: number): void {
    const { jobs = 0, totalMs = 0 } = this.#ran.get(model) ?? {}
    this.#ran.set(model, { jobs: jobs + 1, totalMs: totalMs + ms })
  }

  take(): ModelNews | undefined {
    if (this.isEmpty) return undefined
    const ran = [...this.#ran].map(([model, { jobs, totalMs }]) => ({ model, jobs, totalMs }))
    this.#sent = { loaded: this.#loaded, unloaded: this.#unloaded, ran }
    this.#loaded = []
    this.#unloaded = []
    this.#ran = new Map()
    return this.#sent
  }

  /** Gives what has arrived. */
  settle(taken: boolean): ModelNews | undefined {
    const sent = this.#sent
    this.#sent = undefined
    if (taken || sent === undefined) return sent
    const { loaded, unloaded, ran } = sent
    // Unloaded since: it is told once, and what was loaded before it is not.
    const over = this.#unloaded
    this.#unloaded = [...unloaded, ...over]
    this.#loaded = [
      ...loaded.filter(
        (each) => !over.some((one) => one.model === each.model && each.devices.includes(one.device)),
      ),
      ...this.#loaded,
    ]
    for (const { model, jobs, totalMs } of ran) {
      const later = this.#ran.get(model)
      this.#ran.set(model, { jobs: jobs + (later?.jobs ?? 0), totalMs: totalMs + (later?.totalMs ?? 0) })
    }
    return undefined
  }

  clear(): void {
    this.#loaded = []
    this.#unloaded = []
    this.#ran = new Map()
    this.#sent = undefined
  }
}
