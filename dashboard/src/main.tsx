import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { setNonce } from 'get-nonce'
import { StrictMode, useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { queries } from './connection.ts'
import { Loading } from './parts/notes.tsx'
import { Problem } from './parts/problem.tsx'
import { hasSessionEnded, SignedIn, signIn, useSessionState } from './session.tsx'
import { router } from './shell/router.tsx'
import { SignIn } from './shell/sign-in.tsx'
import './shell/shell.css'
import { applyTheme } from './shell/theme.ts'
import './styles/tokens.css'
import './styles/base.css'

applyTheme()
// For the style that keeps the page from scrolling under a dialog: the policy of the page allows this one and no other.
setNonce(document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? '')

/** The token of an address such as `/#token=slt_...`. No server and no log sees what is behind the `#`. */
function takeToken(): string | undefined {
  const token = /^#token=([\w-]+)$/.exec(location.hash)?.[1]
  // It is good once: it must not come back with a reload or a bookmark.
  if (token !== undefined) history.replaceState(null, '', location.pathname + location.search)
  return token
}

function openWithToken(): Promise<void> | undefined {
  const token = takeToken()
  return token === undefined ? undefined : signIn({ token })
}

let opening = openWithToken()

/** Signs in with the token of the address, and tells what became of it. */
function useToken(): { busy: boolean; failure: unknown } {
  const [state, setState] = useState<{ busy: boolean; failure: unknown }>({
    busy: opening !== undefined,
    failure: undefined,
  })
  useEffect(() => {
    const tell = (attempt: Promise<void> | undefined) =>
      attempt?.then(
        () => setState({ busy: false, failure: undefined }),
        () => setState({ busy: false, failure: new Error(USED_TOKEN) }),
      )
    void tell(opening)
    opening = undefined
    // Pasted into a page that is open already, an address with a token loads nothing anew.
    const pasted = () => {
      const attempt = openWithToken()
      if (attempt === undefined) return
      setState({ busy: true, failure: undefined })
      void tell(attempt)
    }
    addEventListener('hashchange', pasted)
    return () => removeEventListener('hashchange', pasted)
  }, [])
  return state
}

const USED_TOKEN =
  'A sign-in link works once, within 15 minutes. Start sluice up again to get a new one, or sign in with a key.'

/** Who somebody is is asked once the token has been tried: an answer from before would undo what it has opened. */
function App() {
  const { busy, failure } = useToken()
  return busy ? <Loading lines={6} /> : <Gate failure={failure} />
}

const ENDED =
  'You have been signed out: your session expired, or your key was revoked. Sign in again to continue.'

function Gate({ failure }: { failure: unknown }) {
  const { session, error } = useSessionState()
  if (error !== null) return <Problem error={error} onRetry={() => void queries.refetchQueries()} />
  if (session === undefined) return <Loading lines={6} />
  if (session === null)
    return <SignIn failure={failure ?? (hasSessionEnded() ? new Error(ENDED) : undefined)} />
  return (
    <SignedIn session={session}>
      <RouterProvider router={router} />
    </SignedIn>
  )
}

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
)
