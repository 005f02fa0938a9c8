import { type FormEvent, useState } from 'react'
import { hasCode } from '../../../src/client/index.ts'
import { Button, Field, Input } from '../parts/controls.tsx'
import { Problem } from '../parts/problem.tsx'
import { signIn } from '../session.tsx'

/** For whoever is not signed in. The address stays as it is, so that they land where they wanted to go. */
export function SignIn({ failure }: { failure: unknown }) {
  const [key, setKey] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(failure)

  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      await signIn({ key: key.trim() })
    } catch (problem) {
      setError(
        hasCode(problem, 'UNAUTHENTICATED')
          ? new Error('This key is not valid. It may be mistyped, expired or revoked.')
          : problem,
      )
      setBusy(false)
    }
  }

  return (
    <div className="sign-in">
      <form onSubmit={(event) => void submit(event)}>
        <h1 className="brand">
          <svg className="mark" viewBox="0 0 32 32" aria-hidden="true">
            <path d="M5 8h22M5 16h14M5 24h6" />
          </svg>
          Sluice
        </h1>
        <Field
          label="API key"
          hint={
            <>
              A key begins with <code>slk_</code>. On a machine that reaches the database, create one with{' '}
              <code>sluice keys create NAME --role operator</code>.
            </>
          }
        >
          <Input
            type="password"
            name="key"
            autoComplete="current-password"
            autoFocus
            required
            value={key}
            onChange={(event) => setKey(event.target.value)}
          />
        </Field>
        <Problem error={error} />
        <Button type="submit" kind="primary" disabled={busy || key.trim() === ''}>
          {busy ? 'Signing in…' : 'Sign in'}
        </Button>
      </form>
    </div>
  )
}
