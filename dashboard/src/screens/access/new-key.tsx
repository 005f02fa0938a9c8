import { type FormEvent, useState } from 'react'
import { type CreatedKey, PERMISSIONS, type Role } from '../../../../src/client/index.ts'
import { client, queries } from '../../connection.ts'
import { CopyButton } from '../../parts/command.tsx'
import { Button, Field, Input, Select } from '../../parts/controls.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Note } from '../../parts/notes.tsx'
import { Problem } from '../../parts/problem.tsx'
import { NOTHING, readScope, ScopeFields, type ScopeTexts } from './scope-fields.tsx'

const LIVES = [
  ['30d', '30 days'],
  ['90d', '90 days'],
  ['365d', '1 year'],
  ['', 'Never expires'],
] as const

/** What a permission allows, in words; a name that is not known here stands for itself. */
function meaning(permission: string): string {
  return Object.entries(PERMISSIONS).find(([name]) => name === permission)?.[1] ?? permission
}

/** Makes a key, and shows it this once. */
export function NewKey({ roles, onClose }: { roles: readonly Role[]; onClose: () => void }) {
  const [name, setName] = useState('')
  const [role, setRole] = useState('viewer')
  const [life, setLife] = useState<string>('90d')
  const [scope, setScope] = useState<ScopeTexts>(NOTHING)
  const runsWorkers = roles.find((each) => each.name === role)?.permissions.includes('workers:run') ?? false
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const [made, setMade] = useState<CreatedKey>()

  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      const expires = life === '' ? null : life
      const runs = runsWorkers ? { runs: readScope(scope) } : {}
      setMade(await client.access.createKey({ name: name.trim(), role, expires, ...runs }))
      await queries.invalidateQueries({ queryKey: ['keys'] })
    } catch (failure) {
      setError(failure)
    }
    setBusy(false)
  }

  if (made !== undefined)
    return (
      <Dialog title={`Key for ${made.name}`} onClose={onClose}>
        <div className="key-form">
          <Note kind="warn">
            Copy the key now. It is not shown again, and Sluice stores only a hash of it.
          </Note>
          <div className="key-made">
            <code>{made.key}</code>
            <CopyButton text={made.key} />
          </div>
          <div className="dialog-foot">
            <Button kind="primary" onClick={onClose}>
              Done
            </Button>
          </div>
        </div>
      </Dialog>
    )
  return (
    <Dialog title="Create key" onClose={onClose}>
      <form className="key-form" onSubmit={(event) => void submit(event)}>
        <Field
          label="Name"
          hint="The owner of its jobs, and the name in the audit log. Keys with the same name share their jobs."
        >
          <Input
            required
            maxLength={200}
            autoFocus
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </Field>
        <Field
          label="Role"
          hint={`Allows: ${
            roles
              .find((each) => each.name === role)
              ?.permissions.map((each) => meaning(each))
              .join('; ') ?? 'nothing'
          }.`}
        >
          <Select value={role} onChange={(event) => setRole(event.target.value)}>
            {roles.map((each) => (
              <option key={each.name}>{each.name}</option>
            ))}
          </Select>
        </Field>
        <Field label="Expires after">
          <Select value={life} onChange={(event) => setLife(event.target.value)}>
            {LIVES.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </Select>
        </Field>
        {runsWorkers && <ScopeFields scope={scope} onChange={setScope} />}
        <Problem error={error} />
        <div className="dialog-foot">
          <Button onClick={onClose}>Back</Button>
          <Button type="submit" kind="primary" disabled={busy || name.trim() === ''}>
            Create key
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
