/**
 * Does something within a time limit, or until the caller's signal fires: rejects with a `TimeoutError`, or with the reason of
 * that signal. Also ends the wait for work that does not listen to the signal it is given.
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
  const either = signal === undefined ? late.signal : AbortSignal.any([late.signal, signal])
  let cut = () => {}
  const over = new Promise<never>((_, reject) => {
    cut = () => reject(either.reason)
    either.addEventListener('abort', cut, { once: true })
  })
  try {
    return await Promise.race([work(either), over])
  } finally {
    clearTimeout(timer)
    either.removeEventListener('abort', cut)
  }
}

/** Whether `within` gave up by its own limit. */
export function isTimeout(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'TimeoutError'
}
