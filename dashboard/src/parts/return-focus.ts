import { useState } from 'react'

/**
 * Where the focus goes when a dialog closes: back to what had it before, so that whoever goes by keyboard is where they were.
 * The base finds that out by itself only for dialogs that are written beside their button; ours are opened by code.
 */
export function useReturnFocus(): (event: Event) => void {
  const [before] = useState(() => document.activeElement)
  return (event) => {
    event.preventDefault()
    const back = before?.isConnected === true ? before : document.getElementById('main')
    if (back instanceof HTMLElement) back.focus()
  }
}
