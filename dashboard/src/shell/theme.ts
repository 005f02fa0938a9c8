import { useSyncExternalStore } from 'react'

export type Theme = 'system' | 'light' | 'dark'

const KEPT = 'sluice-theme'
const listeners = new Set<() => void>()

function read(): Theme {
  const kept = localStorage.getItem(KEPT)
  return kept === 'light' || kept === 'dark' ? kept : 'system'
}

/** Before anything is drawn, so that nothing flashes. */
export function applyTheme(): void {
  const theme = read()
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}

function setTheme(theme: Theme): void {
  localStorage.setItem(KEPT, theme)
  applyTheme()
  for (const listener of listeners) listener()
}

/** Light, dark, or as the machine has it. */
export function useTheme(): [Theme, (theme: Theme) => void] {
  const theme = useSyncExternalStore((listener) => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }, read)
  return [theme, setTheme]
}
