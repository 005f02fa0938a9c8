import { setTimeout as delay } from 'node:timers/promises'
import type { TaskContext } from '../../../worker/context.ts'

/** Stands for work: takes that long, uses no core, and reports how far it is. */
export async function pretend(ctx: TaskContext, ms: number, parts: readonly string[]): Promise<void> {
  for (const [index, part] of parts.entries()) {
    ctx.progress(index / parts.length, part)
    await delay(ms / parts.length, undefined, { signal: ctx.signal })
  }
}
