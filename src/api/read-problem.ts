import type { Problem } from './problem.ts'

/** The body of a refusal; `undefined` for what no server of Sluice has written. */
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
