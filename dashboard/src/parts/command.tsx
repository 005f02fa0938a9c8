import { useEffect, useState } from 'react'
import { Button } from './controls.tsx'
import './notes.css'

/** A command to run in a terminal, with a button that copies it. */
export function Command({ text }: { text: string }) {
  return (
    <span className="command">
      <code>{text}</code>
      <CopyButton text={text} />
    </span>
  )
}

export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = setTimeout(() => setCopied(false), 1500)
    return () => clearTimeout(timer)
  }, [copied])
  // Pages without TLS, other than those of this machine, have no clipboard.
  if (navigator.clipboard === undefined) return null
  const copy = () => {
    void navigator.clipboard.writeText(text).then(() => setCopied(true))
  }
  return (
    <Button small kind="quiet" onClick={copy}>
      <span aria-live="polite">{copied ? 'Copied' : label}</span>
    </Button>
  )
}
