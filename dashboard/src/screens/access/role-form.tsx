import { type FormEvent, useState } from 'react'
import type { Permission, Role } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { Button, Field, Input } from '../../parts/controls.tsx'
import { count } from '../../parts/count.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { Note } from '../../parts/notes.tsx'
import { Problem } from '../../parts/problem.tsx'
import { useSession } from '../../session.tsx'

/** Makes a role, or changes what one allows. Nobody gives what they do not have. */
export function RoleForm({
  role,
  known,
  onClose,
  onDone,
}: {
  role: Role | undefined
  known: readonly string[]
  onClose: () => void
  onDone: () => void
}) {
  const { may } = useSession()
  const [name, setName] = useState(role?.name ?? '')
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set(role?.permissions))
  const [error, setError] = useState<unknown>()
  const toggle = (permission: string) => {
    const next = new Set(chosen)
    if (!next.delete(permission)) next.add(permission)
    setChosen(next)
  }
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setError(undefined)
    try {
      const permissions = [...chosen]
      if (role === undefined) await client.access.createRole(name.trim(), permissions)
      else await client.access.changeRole(role.name, permissions)
      onDone()
    } catch (failure) {
      setError(failure)
    }
  }
  return (
    <Dialog title={role === undefined ? 'Create role' : `Edit role ${role.name}`} onClose={onClose}>
      <form className="key-form" onSubmit={(event) => void submit(event)}>
        {role === undefined ? (
          <Field label="Name">
            <Input required value={name} onChange={(event) => setName(event.target.value)} />
          </Field>
        ) : (
          role.keys > 0 && (
            <Note kind="warn">
              {count(role.keys, 'key has', 'keys have')} this role. The change applies to them at once.
            </Note>
          )
        )}
        <fieldset className="role-choices">
          <legend>Permissions</legend>
          {known.map((permission) => (
            <label key={permission}>
              <input
                type="checkbox"
                checked={chosen.has(permission)}
                disabled={!may(permission as Permission)}
                onChange={() => toggle(permission)}
              />
              <code>{permission}</code>
            </label>
          ))}
        </fieldset>
        <Problem error={error} />
        <div className="dialog-foot">
          <Button onClick={onClose}>Back</Button>
          <Button type="submit" kind="primary" disabled={chosen.size === 0 || name.trim() === ''}>
            {role === undefined ? 'Create role' : 'Save role'}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
