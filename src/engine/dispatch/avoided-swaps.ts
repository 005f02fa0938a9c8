import type { Start } from '../../policy/decision.ts'
import type { StoredPlanInput } from '../../store/load-plan-input.ts'

type Seen = {
  readonly queues: readonly Pick<StoredPlanInput['queues'][number], 'class' | 'model' | 'since' | 'depth'>[]
  readonly residents: readonly Pick<StoredPlanInput['residents'][number], 'model'>[]
}

/**
 * Counts where strict order would have swapped models and dispatch did not: a job starts on a loaded copy while an
 * older job waits whose model is not loaded. Each waiting job is counted once, however many pass it: a hundred jobs
 * that pass a single one avoid one swap, not a hundred.
 */
export class AvoidedSwaps {
  /** By class whose model is not loaded: how many of its jobs have been counted since then. */
  readonly #passed = new Map<number, number>()

  /** By the model that was served. */
  count(
    { queues, residents }: Seen,
    starts: readonly Pick<Start, 'classId' | 'count' | 'model' | 'newResident'>[],
  ): Readonly<Record<string, number>> {
    const loaded = new Set(residents.map(({ model }) => model))
    for (const { model, newResident } of starts) if (model !== null && newResident) loaded.add(model)
    const cold = queues.filter(({ model }) => model !== null && !loaded.has(model))
    for (const id of this.#passed.keys())
      if (!cold.some((queue) => queue.class === id)) this.#passed.delete(id)
    const avoided: Record<string, number> = Object.create(null)
    for (const { classId, count, model, newResident } of starts) {
      const queue = queues.find((each) => each.class === classId)
      if (model === null || newResident || queue === undefined) continue
      const passes = this.#pass(
        cold.filter(({ since }) => since < queue.since),
        count,
      )
      if (passes > 0) avoided[model] = (avoided[model] ?? 0) + passes
    }
    return avoided
  }

  startOver(): void {
    this.#passed.clear()
  }

  #pass(older: Seen['queues'], count: number): number {
    let left = count
    for (const { class: id, depth } of older) {
      const before = this.#passed.get(id) ?? 0
      const more = Math.max(0, Math.min(left, depth - before))
      this.#passed.set(id, before + more)
      left -= more
    }
    return count - left
  }
}
