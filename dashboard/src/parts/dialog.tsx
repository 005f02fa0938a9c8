import { Dialog as Base } from 'radix-ui'
import type { ReactNode } from 'react'
import { Button } from './controls.tsx'
import './dialog.css'
import { useReturnFocus } from './return-focus.ts'

/** A window over the page, for forms. Escape and a click beside it close it. */
export function Dialog({
  title,
  wide = false,
  onClose,
  children,
}: {
  title: string
  wide?: boolean
  onClose: () => void
  children: ReactNode
}) {
  const returnFocus = useReturnFocus()
  return (
    <Base.Root open onOpenChange={(open) => !open && onClose()}>
      <Base.Portal>
        <Base.Overlay className="dialog-veil" />
        <Base.Content
          className="dialog"
          data-wide={wide || undefined}
          aria-describedby={undefined}
          onCloseAutoFocus={returnFocus}
        >
          <div className="dialog-head">
            <Base.Title className="dialog-title">{title}</Base.Title>
            <Base.Close asChild>
              <Button small kind="quiet" aria-label="Close">
                ✕
              </Button>
            </Base.Close>
          </div>
          {children}
        </Base.Content>
      </Base.Portal>
    </Base.Root>
  )
}
