import { useState } from 'react'
import type { Role } from '../../../../src/client/index.ts'
import { because, queries } from '../../connection.ts'
import { useAsk } from '../../parts/ask.tsx'
import { Button } from '../../parts/controls.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { RoleForm } from './role-form.tsx'

const refresh = () => queries.invalidateQueries({ queryKey: ['roles'] })

/** What each role allows; those that are not built in can be changed. */
export function Roles({ roles }: { roles: readonly Role[] }) {
  const ask = useAsk()
  const [editing, setEditing] = useState<Role | 'new'>()
  const remove = ({ name }: Role) =>
    ask({
      title: `Delete role ${name}`,
      effect: <p>You can delete only a role that no key has ever had.</p>,
      action: 'Delete role',
      danger: true,
      run: async (reason) => {
        await because(reason).access.deleteRole(name)
        await refresh()
        return `Deleted role ${name}`
      },
    })
  const columns: readonly Column<Role>[] = [
    {
      id: 'name',
      head: 'Role',
      width: '20%',
      phone: '118px',
      wrap: true,
      cell: ({ name, builtIn }) => (
        <>
          {name}
          {builtIn && <span className="soft"> built in</span>}
        </>
      ),
    },
    {
      id: 'keys',
      head: 'Keys',
      width: '70px',
      phone: '48px',
      align: 'right',
      cell: ({ keys }) => keys.toLocaleString(),
    },
    {
      id: 'may',
      head: 'Permissions',
      wrap: true,
      cell: ({ permissions }) => <span className="role-permissions">{permissions.join(', ')}</span>,
    },
    {
      id: 'actions',
      head: (
        <Button small onClick={() => setEditing('new')}>
          Create role…
        </Button>
      ),
      width: '196px',
      align: 'right',
      phone: false,
      cell: (role) =>
        !role.builtIn && (
          <span className="role-buttons">
            <Button small aria-label={`Edit role ${role.name}`} onClick={() => setEditing(role)}>
              Edit…
            </Button>
            <Button small kind="danger" aria-label={`Delete role ${role.name}`} onClick={() => remove(role)}>
              Delete…
            </Button>
          </span>
        ),
    },
  ]
  return (
    <>
      {editing !== undefined && (
        <RoleForm
          role={editing === 'new' ? undefined : editing}
          known={[...new Set(roles.flatMap(({ permissions }) => permissions))]}
          onClose={() => setEditing(undefined)}
          onDone={() => {
            setEditing(undefined)
            void refresh()
          }}
        />
      )}
      <Table label="Roles" columns={columns} rows={roles} rowKey={({ name }) => name} />
    </>
  )
}
