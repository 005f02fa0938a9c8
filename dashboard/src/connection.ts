import { MutationCache, QueryCache, QueryClient } from '@tanstack/react-query'
import { hasCode, type Session, SluiceClient } from '../../src/client/index.ts'

/** The name of what is known about who is signed in. */
export const SESSION = ['session']

let csrfToken = ''

/** The door to the server this page came from. The cookie of the session travels by itself. */
export const client = new SluiceClient({
  server: location.origin,
  headers: () => (csrfToken === '' ? {} : { 'x-sluice-csrf': csrfToken }),
})

/** The same door, with a reason that lands in the audit; without one where nothing was typed. */
export function because(reason: string): SluiceClient {
  const told = reason.trim()
  return told === '' ? client : client.because(told)
}

/** Kept in memory only: a page that is loaded anew asks for it again. */
export function keepCsrfToken(session: Session | null): void {
  csrfToken = session?.csrfToken ?? ''
}

/** One more try after a server went away; a refusal is an answer, and asking again gets the same. */
function mayTryAgain(failures: number, error: unknown): boolean {
  return failures < 2 && hasCode(error, 'SERVER_UNAVAILABLE')
}

/** The session has ended, or its key was revoked: whoever asks who is signed in finds out. */
export function noticeRefusal(error: unknown): void {
  if (hasCode(error, 'UNAUTHENTICATED')) void queries.invalidateQueries({ queryKey: SESSION })
}

export const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: noticeRefusal }),
  mutationCache: new MutationCache({ onError: noticeRefusal }),
  defaultOptions: {
    queries: { retry: mayTryAgain, staleTime: 1000, refetchOnWindowFocus: true },
    mutations: { retry: false },
  },
})
