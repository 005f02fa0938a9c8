import type { StackFrame } from './error-detail.ts'

/**
 * Parses the frames of a V8 stack, innermost first. If some belong to the task's code, frames outside the outermost of
 * them are dropped: they are Sluice's, or of a library that called the task, and the same for every error. `foreign`
 * lists prefixes of paths that are not the task's code.
 */
export function stackFrames(stack: string, foreign: readonly string[], most: number): StackFrame[] {
  const frames: StackFrame[] = []
  for (const text of stack.split('\n', 10 * most)) {
    const found = /^\s+at (.+)$/.exec(text)
    if (found === null) continue
    const line = found[1]!
    frames.push(isOwn(line, foreign) ? { line, own: true } : { line })
    if (frames.length === most) break
  }
  const outermost = frames.findLastIndex(({ own }) => own === true)
  return outermost < 0 ? frames : frames.slice(0, outermost + 1)
}

function isOwn(line: string, foreign: readonly string[]): boolean {
  const place = /\(([^()]*)\)$/.exec(line)?.[1] ?? line.replace(/^async /, '')
  const path = place.startsWith('file://') ? place.slice('file://'.length) : place
  if (!/:\d+$/.test(path) || path.startsWith('node:') || path.startsWith('<anonymous>')) return false
  if (/[\\/]node_modules[\\/]/.test(path)) return false
  return !foreign.some((beginning) => path.startsWith(beginning))
}
