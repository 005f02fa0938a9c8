import { Link, useRouterState } from '@tanstack/react-router'
import type { Permission } from '../../../src/client/index.ts'
import { SCREENS, type ScreenEntry } from '../screens/index.ts'
import { useSession } from '../session.tsx'

export const GROUPS = ['Watch', 'Operate', 'Manage'] as const

export function isOpenTo({ needs }: ScreenEntry, may: (permission: Permission) => boolean): boolean {
  return needs === undefined || needs.some(may)
}

/** Whether there is a screen at this address that whoever is signed in may open. */
export function useHasScreen(): (path: string) => boolean {
  const { may } = useSession()
  return (path) => SCREENS.some((screen) => fits(screen.path, path) && isOpenTo(screen, may))
}

/** Whether an address is one of a screen's: `/jobs/42` of `/jobs/$id`. */
function fits(pattern: string, path: string): boolean {
  const parts = path.split('/')
  const wanted = pattern.split('/')
  return (
    parts.length === wanted.length && wanted.every((part, at) => part.startsWith('$') || part === parts[at])
  )
}

/** The screens that this role may open. */
export function Navigation({ onGo }: { onGo?: () => void }) {
  const { may } = useSession()
  const open = SCREENS.filter((screen) => isOpenTo(screen, may))
  // Workflows and traces are of jobs, and have no line of their own.
  const ofJobs = useRouterState({
    select: ({ location }) => /^\/(workflows|trace)\//.test(location.pathname),
  })
  return (
    <nav className="navigation" aria-label="Screens">
      {GROUPS.map((group) => {
        const screens = open.filter((screen) => screen.group === group)
        if (screens.length === 0) return null
        return (
          <div key={group}>
            <h2>{group}</h2>
            <ul>
              {screens.map(({ path, label }) => (
                <li key={path}>
                  <Link
                    to={path}
                    activeOptions={{ exact: path === '/', includeSearch: false }}
                    {...(path === '/jobs' && ofJobs && { 'aria-current': 'page' as const })}
                    {...(onGo !== undefined && { onClick: onGo })}
                  >
                    {label}
                  </Link>
                </li>
              ))}
            </ul>
          </div>
        )
      })}
    </nav>
  )
}
