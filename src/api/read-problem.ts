import type { Problem } from './problem.ts'

/** Parses the body of an error response. Returns `undefined` if no Sluice server wrote it. */
export function readProblem(text: string): (Problem & Record<string, unknown>) | undefined {
  try {
    const problem = JSON.parse(text) as Partial<Problem & Record<string, unknown>> | null
    const { code, detail } = problem ?? {}
    return typeof code === 'string' && typeof detail === 'string'
      ? (problem as Problem & Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}
