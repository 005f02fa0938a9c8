import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { type ReactNode, useCallback } from 'react'

/** What stands behind the `?` of an address: texts only, so that an address means what it says. */
export type Search = Readonly<Record<string, string | undefined>>

/** A link to a screen: `<To path="/jobs/42">`, `<To path="/jobs" search={{ lane: 'default' }}>`. */
export function To({
  path,
  search,
  className,
  title,
  children,
}: {
  path: string
  search?: Search
  className?: string
  title?: string
  children: ReactNode
}) {
  return (
    <Link
      to={path}
      search={(search ?? {}) as never}
      className={className ?? ''}
      {...(title !== undefined && { title })}
    >
      {children}
    </Link>
  )
}

/** A job by its number. */
export function JobLink({ id, children }: { id: string; children?: ReactNode }) {
  return <To path={`/jobs/${id}`}>{children ?? `#${id}`}</To>
}

/** A part of the address, as in `/jobs/$id`. */
export function useParam(name: string): string {
  return (useParams({ strict: false }) as Record<string, string | undefined>)[name] ?? ''
}

/** What stands behind the `?`, and a way to change parts of it; `undefined` removes one. Filters live here. */
export function useAddress(): {
  search: Search
  change: (change: Search, options?: { push?: boolean }) => void
} {
  const search = useSearch({ strict: false }) as Search
  const navigate = useNavigate()
  const change = useCallback(
    (part: Search, { push = false }: { push?: boolean } = {}) => {
      void navigate({
        to: '.',
        search: ((before: Search) => ({ ...before, ...part })) as never,
        replace: !push,
      })
    },
    [navigate],
  )
  return { search, change }
}

/** Goes to another screen, after something was done. */
export function useGo(): (path: string, search?: Search) => void {
  const navigate = useNavigate()
  return useCallback(
    (path, search) => {
      void navigate({ to: path, search: (search ?? {}) as never })
    },
    [navigate],
  )
}
