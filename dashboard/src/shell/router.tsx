import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Navigate,
  useRouterState,
} from '@tanstack/react-router'
import { type ComponentType, type ReactNode, useEffect } from 'react'
import { Empty, Loading } from '../parts/notes.tsx'
import { Problem } from '../parts/problem.tsx'
import { SCREENS, type ScreenEntry } from '../screens/index.ts'
import { useSession } from '../session.tsx'
import { isOpenTo } from './navigation.tsx'
import { Shell } from './shell.tsx'

/** Files of a screen come when somebody goes there. Browsers say in words of their own that they did not. */
const NOT_LOADED = /preload|dynamically imported|importing a module/i

const LOOK_MS = 2000
/** A screen that cannot be loaded although the server responds is not tried more often. */
const RELOADS_MS = 30_000
const RELOADED = 'sluice-reloaded'

/** Loads the page again once the server responds: what a browser could not load once it does not ask for again. */
function useReloadWhenBack(away: boolean): void {
  useEffect(() => {
    if (!away) return
    const look = async () => {
      const answer = await fetch('/healthz', { cache: 'no-store' }).catch(() => undefined)
      if (answer?.ok !== true || Date.now() - Number(sessionStorage.getItem(RELOADED)) < RELOADS_MS) return
      sessionStorage.setItem(RELOADED, String(Date.now()))
      location.reload()
    }
    const timer = setInterval(() => void look(), LOOK_MS)
    return () => clearInterval(timer)
  }, [away])
}

function Broken({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  const away = error instanceof Error && NOT_LOADED.test(error.message)
  useReloadWhenBack(away)
  if (!away) return <Problem error={error} onRetry={onRetry} />
  return (
    <Problem
      error={
        new Error(
          'This screen could not be loaded because the server does not respond. It loads once the server is back.',
        )
      }
      onRetry={() => location.reload()}
    />
  )
}

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => (
    <Empty whole title="Page not found">
      The address may be mistyped, or belong to another version of Sluice.
    </Empty>
  ),
  errorComponent: ({ error, reset }) => <Broken error={error} onRetry={reset} />,
})

/** A screen for those who may open it, with the title of the window. */
function guarded(entry: ScreenEntry): () => ReactNode {
  const Screen = lazyRouteComponent(entry.load, 'Screen') as ComponentType
  // biome-ignore lint/correctness/noComponentHookFactories: called once a route, when this module is loaded
  return function Guarded() {
    const { may } = useSession()
    const path = useRouterState({ select: ({ location }) => location.pathname })
    useEffect(() => {
      const id = entry.path.includes('$') ? ` ${decodeURIComponent(path.split('/').pop() ?? '')}` : ''
      document.title = `${entry.label}${id} · Sluice`
    }, [path])
    const first = SCREENS.find((each) => each.group !== undefined && isOpenTo(each, may))
    // The first page is not for every role: the others begin with the first they may open.
    if (entry.path === '/' && !isOpenTo(entry, may) && first !== undefined)
      return <Navigate to={first.path} replace />
    if (!isOpenTo(entry, may))
      return (
        <Empty whole title="Your role does not allow this screen">
          This screen needs the permission {entry.needs?.join(' or ')}.
        </Empty>
      )
    return <Screen />
  }
}

const routes = SCREENS.map((entry) =>
  createRoute({ getParentRoute: () => root, path: entry.path, component: guarded(entry) }),
)

/** Addresses mean what they say: `?key=42` is the text 42, and an empty field is left out. */
export const router = createRouter({
  routeTree: root.addChildren(routes),
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const kept = Object.entries(search).filter(([, value]) => value !== undefined && value !== '')
    const text = new URLSearchParams(kept as [string, string][]).toString()
    return text === '' ? '' : `?${text}`
  },
  defaultPreload: 'intent',
  defaultPendingComponent: () => <Loading lines={8} />,
  defaultPendingMs: 200,
  defaultErrorComponent: ({ error, reset }) => <Broken error={error} onRetry={reset} />,
  scrollRestoration: true,
})
