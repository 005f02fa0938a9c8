import type { Trace } from '../../../../src/client/index.ts'

export type Level = Trace['levels'][number]

/** `[3]` for a child of a fan-out, the name of its step for any other, the workflow or task for the root. */
export function levelName(level: Level, parent: Level | undefined): string {
  if (parent?.kind === 'fanout') return `${parent.step ?? parent.task}[${level.index}]`
  return level.step ?? level.task
}

export function kindWord({ kind }: Pick<Level, 'kind'>): string {
  return kind === 'fanout' ? 'fan-out' : (kind ?? 'task')
}
