import { useQuery } from '@tanstack/react-query'
import { createContext, type ReactNode, useContext, useMemo } from 'react'
import { hasCode, type Permission, type Session } from '../../src/client/index.ts'
import { client, keepCsrfToken, queries, SESSION } from './connection.ts'
import { forgetNow } from './live/now.ts'

/** Who is signed in: `undefined` while that is not known, `null` when nobody is. */
export function useSessionState(): { session: Session | null | undefined; error: unknown } {
  const { data, error } = useQuery({
    queryKey: SESSION,
    queryFn: askWho,
    // Roles change and keys are revoked while a page is open.
    refetchInterval: 60_000,
    staleTime: 60_000,
  })
  return { session: data, error: data === undefined ? error : null }
}

/** Somebody was signed in on this page and has not signed out. */
let seen = false

/** Whether a session that was open here has ended without being closed here. */
export function hasSessionEnded(): boolean {
  return seen
}

async function askWho(): Promise<Session | null> {
  try {
    const session = await client.access.session()
    keepCsrfToken(session)
    seen = true
    return session
  } catch (error) {
    if (!hasCode(error, 'UNAUTHENTICATED')) throw error
    keepCsrfToken(null)
    return null
  }
}

export async function signIn(secret: { key: string } | { token: string }): Promise<void> {
  const session = await client.access.signIn(secret)
  // A session that has ended by itself has left behind what it saw.
  forgetSession()
  keepCsrfToken(session)
  seen = true
  queries.setQueryData(SESSION, session)
}

export async function signOut(): Promise<void> {
  await client.access.signOut().catch((error) => {
    if (!hasCode(error, 'UNAUTHENTICATED')) throw error
  })
  seen = false
  forgetSession()
}

/** Nothing of what one person saw stays for the next. */
export function forgetSession(): void {
  keepCsrfToken(null)
  forgetNow()
  // Not that question itself: whoever watches it would hear of no answer to a new one.
  queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== SESSION[0] })
  queries.getMutationCache().clear()
  queries.setQueryData(SESSION, null)
}

const Signed = createContext<Session | undefined>(undefined)

export function SignedIn({ session, children }: { session: Session; children: ReactNode }) {
  return <Signed value={session}>{children}</Signed>
}

/** Who is signed in, and what they may do. Inside the shell only. */
export function useSession(): { session: Session; may: (permission: Permission) => boolean } {
  const session = useContext(Signed)
  if (session === undefined) throw new Error('useSession is for screens, which are shown to who is signed in')
  return useMemo(() => {
    const permissions = new Set(session.permissions)
    return { session, may: (permission) => permissions.has(permission) }
  }, [session])
}

/** Shows its children to whoever has the permission: what a role may not do is not offered. */
export function IfMay({ permission, children }: { permission: Permission; children: ReactNode }) {
  const { may } = useSession()
  return may(permission) ? children : null
}
