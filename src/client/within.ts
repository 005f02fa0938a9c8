/**
 * Does something that gives up when its signal fires: the caller's, or its own after so many milliseconds.
 *
 * Not with `AbortSignal.timeout`: as a part of another signal it may be collected before its time, and never fires.
 */
export async function within<T>(
  ms: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(new DOMException('it took too long', 'TimeoutError')), ms)
  try {
    return await work(signal === undefined ? late.signal : AbortSignal.any([late.signal, signal]))
  } finally {
    clearTimeout(timer)
  }
}
