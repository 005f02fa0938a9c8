import type { ErrorDetail, StackFrame } from '../../model/error-detail.ts'
import type { Output } from './output.ts'
import { painter } from './style.ts'

/** An error with its stack and everything behind it. Frames of the task's own code are marked with `>`. */
export function writeErrorDetail(out: Output, detail: ErrorDetail, indent = ''): void {
  const paint = painter(out)
  const { class: name, message, stack = [], properties, value, cause, errors = [], cut } = detail
  out.line(`${indent}${paint('bold', name)}${message === '' ? '' : `: ${inset(message, indent)}`}`)
  for (const frame of stack) out.line(`${indent}${frameLine(frame, paint)}`)
  if (properties !== undefined) out.line(`${indent}  with ${json(properties, indent)}`)
  // What is a message already is not told twice.
  if (value !== undefined && JSON.stringify(value) !== message)
    out.line(`${indent}  content ${json(value, indent)}`)
  errors.forEach((each, at) => {
    out.line(`${indent}  error ${at + 1} of ${errors.length}:`)
    writeErrorDetail(out, each, `${indent}    `)
  })
  if (cause !== undefined) {
    out.line(`${indent}caused by:`)
    writeErrorDetail(out, cause, `${indent}  `)
  }
  if (cut === true) out.line(`${indent}${paint('dim', '(shortened to 16 kB)')}`)
}

function frameLine({ line, own }: StackFrame, paint: ReturnType<typeof painter>): string {
  return own === true ? `${paint('yellow', '>')} at ${line}` : paint('dim', `  at ${line}`)
}

function json(value: unknown, indent: string): string {
  const line = JSON.stringify(value)
  return line.length <= 100 ? line : inset(JSON.stringify(value, null, 2), `${indent}  `)
}

function inset(text: string, indent: string): string {
  return text.replaceAll('\n', `\n${indent}`)
}
