/** What a key may do. Public, like the codes of errors: custom roles are lists of these. */
export const PERMISSIONS = [
  'jobs:submit',
  'jobs:read',
  'jobs:read:all',
  'jobs:cancel',
  'jobs:approve',
  'workers:view',
  'workers:manage',
  'workers:run',
  'access:manage',
] as const

export type Permission = (typeof PERMISSIONS)[number]

const VIEWER: readonly Permission[] = ['jobs:read', 'jobs:read:all', 'workers:view']
const SUBMITTER: readonly Permission[] = ['jobs:submit', 'jobs:read', 'jobs:cancel']
const APPROVER: readonly Permission[] = [...VIEWER, 'jobs:approve']

/** The roles that are always there. Others are made by whoever has `access:manage`. */
export const ROLES = {
  viewer: VIEWER,
  submitter: SUBMITTER,
  approver: APPROVER,
  operator: [...new Set([...APPROVER, ...SUBMITTER, 'workers:manage' as const])],
  worker: ['workers:run'],
  platform_admin: PERMISSIONS,
} as const satisfies Record<string, readonly Permission[]>

export type RoleName = keyof typeof ROLES

export function isPermission(text: string): text is Permission {
  return (PERMISSIONS as readonly string[]).includes(text)
}
