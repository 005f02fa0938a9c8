import { AlertDialog } from 'radix-ui'
import { createContext, type ReactNode, useCallback, useContext, useState } from 'react'
import { Button } from './controls.tsx'
import './dialog.css'
import { Problem } from './problem.tsx'
import { ReasonField } from './reason-field.tsx'
import { useReturnFocus } from './return-focus.ts'
import { useTell } from './toast.tsx'

export interface Question {
  readonly title: string
  /** Exactly what will happen. */
  readonly effect: ReactNode
  /** How many it touches: the button says so. `undefined` while it is being counted is `'counting'`. */
  readonly count?: number | 'counting' | undefined
  /** On the button. */
  readonly action: string
  readonly danger?: boolean
  /** Whether a reason is asked for; it lands in the audit. */
  readonly reason?: 'required' | 'optional' | 'none'
  /** Does it. What it returns is told afterwards. `progress` is shown while it goes on. */
  readonly run: (reason: string, progress: (words: string) => void) => Promise<string | undefined>
}

const Asking = createContext<((question: Question) => void) | undefined>(undefined)

/** Asks once before something is done: `ask({ title, effect, action, run })`. */
export function useAsk(): (question: Question) => void {
  const ask = useContext(Asking)
  if (ask === undefined) throw new Error('useAsk is for what is inside AskHost')
  return ask
}

/** Shows the question that is open. One in the whole page. */
export function AskHost({ children }: { children: ReactNode }) {
  const [open, setOpen] = useState<{ question: Question; id: number }>()
  const ask = useCallback((question: Question) => {
    setOpen((before) => ({ question, id: (before?.id ?? 0) + 1 }))
  }, [])
  return (
    <Asking value={ask}>
      {children}
      {open !== undefined && (
        <AskDialog key={open.id} question={open.question} onClose={() => setOpen(undefined)} />
      )}
    </Asking>
  )
}

function AskDialog({ question, onClose }: { question: Question; onClose: () => void }) {
  const { title, effect, count, action, danger = false, reason: wanted = 'optional', run } = question
  const [reason, setReason] = useState('')
  const [busy, setBusy] = useState<string>()
  const [error, setError] = useState<unknown>()
  const tell = useTell()
  const returnFocus = useReturnFocus()
  const missing = wanted === 'required' && reason.trim() === ''
  const nothing = count === 0

  const go = async () => {
    setBusy('Working…')
    setError(undefined)
    try {
      const told = await run(reason.trim(), setBusy)
      if (told !== undefined) tell(told)
      onClose()
    } catch (failure) {
      setError(failure)
      setBusy(undefined)
    }
  }

  return (
    <AlertDialog.Root open onOpenChange={(open) => !open && busy === undefined && onClose()}>
      <AlertDialog.Portal>
        <AlertDialog.Overlay className="dialog-veil" />
        <AlertDialog.Content className="dialog" onCloseAutoFocus={returnFocus}>
          <AlertDialog.Title className="dialog-title">{title}</AlertDialog.Title>
          <AlertDialog.Description asChild>
            <div className="dialog-text">{effect}</div>
          </AlertDialog.Description>
          <form
            className="dialog-form"
            onSubmit={(event) => {
              event.preventDefault()
              if (!missing && !nothing && busy === undefined) void go()
            }}
          >
            {wanted !== 'none' && (
              <ReasonField value={reason} required={wanted === 'required'} onChange={setReason} />
            )}
            <Problem error={error} />
            <div className="dialog-foot">
              <span className="soft" role="status">
                {busy}
              </span>
              <AlertDialog.Cancel asChild>
                <Button disabled={busy !== undefined}>Back</Button>
              </AlertDialog.Cancel>
              <Button
                type="submit"
                kind={danger ? 'danger' : 'primary'}
                disabled={busy !== undefined || missing || nothing || count === 'counting'}
              >
                {typeof count === 'number' && count !== 1 ? `${action} (${count.toLocaleString()})` : action}
              </Button>
            </div>
          </form>
        </AlertDialog.Content>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  )
}
