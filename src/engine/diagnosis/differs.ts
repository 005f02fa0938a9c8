import type { Finding } from './finding.ts'

/** Who has set the value that is in force, and the command that undoes it. */
export interface OperatorsWord {
  readonly updatedAt: Date
  readonly updatedBy: string
  readonly reset: string
}

/** That something is not as the config has it: an operator's change wins until it is reset. */
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
        : `${operator.reset} lets the config decide again`,
  }
}

/** That the config names something nobody has made yet. */
export function notMade(check: string): Finding {
  return {
    check,
    level: 'note',
    found: 'is in the config and not in the database',
    advice: 'it is made when a worker or program with this config starts',
  }
}
