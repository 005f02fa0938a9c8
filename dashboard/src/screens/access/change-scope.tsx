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
    <Dialog title={`What key ${of.id} of ${of.name} runs`} onClose={onClose}>
      <form className="key-form" onSubmit={(event) => void submit(event)}>
        <p>It counts at once. A worker that runs more is refused, and others take over its jobs.</p>
        <ScopeFields scope={scope} onChange={setScope} />
        <Problem error={error} />
        <div className="dialog-foot">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" disabled={busy}>
            Change
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
