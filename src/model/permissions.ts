import { MAX_COMMON_PRIORITY } from './limits.ts'
/**
 * Every permission that an API key can have.
 *
 * Permissions are public, because custom roles name them. Add freely; never rename one.
 */
export const PERMISSIONS = {
  'jobs:submit': 'submit jobs and schedules, and rerun own jobs',
  'jobs:read': 'read own jobs',
  'jobs:read:all': 'read the jobs of all owners',
  'jobs:cancel': 'cancel and delete own jobs, and resize their windows',
  'jobs:approve': 'approve and reject jobs of others',
  'jobs:prioritise': `submit jobs and schedules with a priority above ${MAX_COMMON_PRIORITY}`,
  'workers:view': 'view lanes, workers, queues and metrics',
  'workers:manage': 'change lanes, workers, limits and the jobs of others',
  'workers:run':
    'run a worker: acquire jobs of the tasks and lanes that the key names, and report how they end',
  'access:manage': 'create and revoke keys, change roles, read the audit log',
} as const satisfies Record<string, string>

export type Permission = keyof typeof PERMISSIONS

export const PERMISSION_NAMES = Object.keys(PERMISSIONS) as readonly Permission[]

const VIEWER = ['jobs:read', 'jobs:read:all', 'workers:view'] as const

/** The built-in roles. Operators create others. */
export const ROLES = {
  viewer: VIEWER,
  submitter: ['jobs:submit', 'jobs:read', 'jobs:cancel'],
  approver: [...VIEWER, 'jobs:approve'],
  operator: [...VIEWER, 'jobs:submit', 'jobs:cancel', 'jobs:approve', 'jobs:prioritise', 'workers:manage'],
  worker: ['workers:run'],
  platform_admin: PERMISSION_NAMES,
} as const satisfies Record<string, readonly Permission[]>

export type BuiltInRole = keyof typeof ROLES

/** The role of the first key. */
export const ADMIN_ROLE = 'platform_admin' satisfies BuiltInRole

export function isPermission(text: string): text is Permission {
  return Object.hasOwn(PERMISSIONS, text)
}

/**
 * The permissions that a list of names grants. Permission to read all jobs includes own jobs. Unknown names grant
 * nothing: a newer version may have stored them.
 */
export function permissionSet(names: Iterable<string>): ReadonlySet<Permission> {
  const set = new Set([...names].filter(isPermission))
  if (set.has('jobs:read:all')) set.add('jobs:read')
  return set
}

/** The permissions in `wanted` that `held` lacks, in the order of `PERMISSION_NAMES`. */
export function missingPermissions(
  wanted: ReadonlySet<Permission>,
  held: ReadonlySet<Permission>,
): readonly Permission[] {
  return PERMISSION_NAMES.filter((each) => wanted.has(each) && !held.has(each))
}
