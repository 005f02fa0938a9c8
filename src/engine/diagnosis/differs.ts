import type { Finding } from './finding.ts'

/** Who set the effective value, and the command that resets it. */
export interface OperatorsWord {
  readonly updatedAt: Date
  readonly updatedBy: string
  readonly reset: string
}

/** Reports a difference from the config. An operator's change wins until it is reset. */
export function differs(
  check: string,
  field: string,
  wanted: string,
  actual: string,
  operator: OperatorsWord | undefined,
): Finding {
  const by =
    operator === undefined
      ? ''
      : `, set by an operator (last change ${operator.updatedAt.toISOString()} by ${operator.updatedBy})`
  return {
    check,
    level: 'note',
    found: `${field} is ${actual}${by}; the config says ${wanted}`,
    advice:
      operator === undefined
        ? 'the config is applied when a worker or program with it starts'
        : `${operator.reset} restores the value of the config`,
  }
}

/** Reports that the config names something that does not exist yet. */
export function notMade(check: string): Finding {
  return {
    check,
    level: 'note',
    found: 'is in the config but not in the database',
    advice: 'it is created when a worker or program with this config starts',
  }
}
