import { type FormEvent, useState } from 'react'
import type { Key } from '../../../../src/client/index.ts'
import { client, queries } from '../../connection.ts'
import { Button } from '../../parts/controls.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Problem } from '../../parts/problem.tsx'
import { NOTHING, readScope, ScopeFields, scopeTexts } from './scope-fields.tsx'

/** Changes what the workers of a key may run. */
export function ChangeScope({ of, onClose }: { of: Key; onClose: () => void }) {
  const [scope, setScope] = useState(of.runs === null ? NOTHING : scopeTexts(of.runs))
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      await client.access.changeKey(of.id, { runs: readScope(scope) })
      await queries.invalidateQueries({ queryKey: ['keys'] })
      onClose()
    } catch (failure) {
      setError(failure)
      setBusy(false)
    }
  }
  return (
    <Dialog title={`Work allowed to key ${of.id} of ${of.name}`} onClose={onClose}>
      <form className="key-form" onSubmit={(event) => void submit(event)}>
        <p>
          The change takes effect at once. Workers that run anything else are rejected, and other workers take
          over their jobs.
        </p>
        <ScopeFields scope={scope} onChange={setScope} />
        <Problem error={error} />
        <div className="dialog-foot">
          <Button onClick={onClose}>Back</Button>
          <Button type="submit" kind="primary" disabled={busy}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
