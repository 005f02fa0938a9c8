import { useEffect } from 'react'

/** What lies over the page. */
export type Overlay = 'palette' | 'help' | undefined

/** Opens the search with / or Ctrl+K (⌘K), and the help with ?. Keys that are typed into a field stay there. */
export function useShortcuts(open: (overlay: Overlay) => void): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const overlay = overlayOf(event)
      if (overlay === undefined) return
      event.preventDefault()
      open(overlay)
    }
    addEventListener('keydown', pressed)
    return () => removeEventListener('keydown', pressed)
  }, [open])
}

function overlayOf({ key, ctrlKey, metaKey, altKey, target }: KeyboardEvent): Overlay {
  // One dialog at a time.
  if (document.querySelector('[role="dialog"], [role="alertdialog"]') !== null) return undefined
  if (key.toLowerCase() === 'k' && (ctrlKey || metaKey) && !altKey) return 'palette'
  if (ctrlKey || metaKey || altKey) return undefined
  const typing =
    target instanceof Element &&
    target.closest('input:not([type="checkbox"], [type="radio"]), textarea, select, [contenteditable]') !==
      null
  if (typing) return undefined
  return key === '/' ? 'palette' : key === '?' ? 'help' : undefined
}
