import { createContext, type ReactNode, useCallback, useContext, useEffect, useState } from 'react'
import './toast.css'

const SHOWN_MS = 6000
const Telling = createContext<((words: string) => void) | undefined>(undefined)

/** Says in passing what was done: `tell('Lane default is paused')`. Failures stay where they happened instead. */
export function useTell(): (words: string) => void {
  const tell = useContext(Telling)
  if (tell === undefined) throw new Error('useTell is for what is inside TellHost')
  return tell
}

export function TellHost({ children }: { children: ReactNode }) {
  const [told, setTold] = useState<{ words: string; id: number }>()
  const tell = useCallback((words: string) => setTold((before) => ({ words, id: (before?.id ?? 0) + 1 })), [])
  useEffect(() => {
    if (told === undefined) return
    const timer = setTimeout(() => setTold(undefined), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [told])
  return (
    <Telling value={tell}>
      {children}
      <div className="toasts" role="status">
        {told !== undefined && (
          <div className="toast" key={told.id}>
            {told.words}
          </div>
        )}
      </div>
    </Telling>
  )
}
