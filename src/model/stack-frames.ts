import type { StackFrame } from './error-detail.ts'

/**
 * The frames in an error's stack as V8 writes it, the innermost first. Where some are of the task's own code, those outside the outermost of them are left out: they
 * are of Sluice, or of a library that called the task's code, and the same for every error. `foreign`: beginnings of paths that are not the task's own code.
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
