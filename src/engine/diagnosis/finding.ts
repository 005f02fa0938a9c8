/** One thing that was looked at. */
export interface Finding {
  /** What was looked at, in a word: `fsync`, `lane interactive`. */
  readonly check: string
  /** `problem`: a promise is in danger. `warning`: it will become one, or costs speed. `note`: worth knowing. */
  readonly level: 'ok' | 'note' | 'warning' | 'problem'
  readonly found: string
  /** What to do about it. */
  readonly advice?: string
}

export type Check<Patient> = (patient: Patient) => Promise<Finding[]>

export function ok(check: string, found: string): Finding {
  return { check, level: 'ok', found }
}
