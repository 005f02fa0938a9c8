import pino, { type Logger } from 'pino'
import type { Output } from './output/output.ts'
import { type Colour, painter } from './output/style.ts'
import { printable } from './output/text-width.ts'

const LEVELS: Readonly<Record<number, readonly [name: string, colour: Colour]>> = {
  10: ['trace', 'dim'],
  20: ['debug', 'dim'],
  30: ['info', 'green'],
  40: ['warn', 'yellow'],
  50: ['error', 'red'],
  60: ['fatal', 'red'],
}

/**
 * The log of a command: a readable line per entry on a terminal, JSON elsewhere.
 *
 * @param options.json JSON also on a terminal.
 */
export function createLog(output: Output, options: { level: string; json: boolean }): Logger {
  const level = options.level in pino.levels.values || options.level === 'silent' ? options.level : 'info'
  const settings = { name: 'sluice', level }
  if (options.json || !output.isTerminal) {
    return pino(settings, { write: (line: string) => output.write(line) })
  }
  return pino(settings, { write: (line: string) => output.line(readable(line, painter(output))) })
}

function readable(line: string, paint: (colour: Colour, text: string) => string): string {
  const { level, time, msg, pid: _pid, hostname: _host, name: _name, ...fields } = JSON.parse(line)
  const [name, colour] = LEVELS[level as number] ?? ['log', 'dim']
  const clock = new Date(time as number).toTimeString().slice(0, 8)
  const rest = Object.entries(fields)
    .map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ')
  const message = printable(String(msg ?? ''))
  return `${paint('dim', clock)} ${paint(colour, name.padEnd(5))} ${message} ${paint('dim', printable(rest))}`.trimEnd()
}
