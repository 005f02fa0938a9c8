import type { ComponentType } from 'react'
import type { Permission } from '../../../src/client/index.ts'

/** A screen: where it is, who may open it, and the file that draws it, loaded when somebody goes there. */
export interface ScreenEntry {
  /** `/jobs/$id`: what begins with `$` is read with `useParam('id')`. */
  readonly path: string
  /** In the navigation, and the title of the window; screens without a group are reached by links. */
  readonly label: string
  readonly group?: 'Watch' | 'Operate' | 'Manage'
  /** One of these is needed; without any, everybody who is signed in may open it. */
  readonly needs?: readonly Permission[]
  readonly load: () => Promise<{ readonly Screen: ComponentType }>
}

/** Every screen there is, in the order of the navigation. One line each. */
export const SCREENS: readonly ScreenEntry[] = [
  { path: '/', label: 'Now', group: 'Watch', needs: ['workers:view'], load: () => import('./now.tsx') },
  { path: '/jobs', label: 'Jobs', group: 'Watch', needs: ['jobs:read'], load: () => import('./jobs.tsx') },
  { path: '/jobs/$id', label: 'Job', needs: ['jobs:read'], load: () => import('./job.tsx') },
  {
    path: '/workflows/$id',
    label: 'Workflow',
    needs: ['jobs:read'],
    load: () => import('./workflow.tsx'),
  },
  { path: '/trace/$id', label: 'Failure trace', needs: ['jobs:read'], load: () => import('./trace.tsx') },
  {
    path: '/lanes',
    label: 'Lanes',
    group: 'Operate',
    needs: ['workers:view'],
    load: () => import('./lanes.tsx'),
  },
  {
    path: '/errors',
    label: 'Errors',
    group: 'Watch',
    needs: ['jobs:read'],
    load: () => import('./errors.tsx'),
  },
  {
    path: '/workers',
    label: 'Workers',
    group: 'Operate',
    needs: ['workers:view'],
    load: () => import('./workers.tsx'),
  },
  {
    path: '/gpu',
    label: 'Devices',
    group: 'Operate',
    needs: ['workers:view'],
    load: () => import('./gpu.tsx'),
  },
  {
    path: '/approvals',
    label: 'Approvals',
    group: 'Operate',
    needs: ['jobs:approve'],
    load: () => import('./approvals.tsx'),
  },
  {
    path: '/schedules',
    label: 'Schedules',
    group: 'Operate',
    needs: ['jobs:submit', 'jobs:read:all'],
    load: () => import('./schedules.tsx'),
  },
  {
    path: '/recovery',
    label: 'Recovery',
    group: 'Watch',
    needs: ['workers:view'],
    load: () => import('./recovery.tsx'),
  },
  {
    path: '/access',
    label: 'Access',
    group: 'Manage',
    needs: ['access:manage'],
    load: () => import('./access.tsx'),
  },
  {
    path: '/audit',
    label: 'Audit',
    group: 'Manage',
    needs: ['access:manage'],
    load: () => import('./audit.tsx'),
  },
]
