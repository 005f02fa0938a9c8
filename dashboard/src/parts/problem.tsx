import { SluiceError } from '../../../src/client/index.ts'
import { Button } from './controls.tsx'
import './notes.css'

/** A failure in the words of the server, with its code, and a way to try again where there is one. */
export function Problem({ error, onRetry }: { error: unknown; onRetry?: (() => void) | undefined }) {
  if (error === null || error === undefined) return null
  const { words, code } = describeError(error)
  return (
    <div className="note" data-kind="problem" role="alert">
      <p>{words}</p>
      <p className="note-foot">
        {code !== undefined && <code>{code}</code>}
        {onRetry !== undefined && (
          <Button small onClick={onRetry}>
            Try again
          </Button>
        )}
      </p>
    </div>
  )
}

export function describeError(error: unknown): { words: string; code: string | undefined } {
  if (error instanceof SluiceError) return { words: sentence(error.message), code: error.code }
  return { words: sentence(error instanceof Error ? error.message : String(error)), code: undefined }
}

/** Messages begin small, as programs write them. */
function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
