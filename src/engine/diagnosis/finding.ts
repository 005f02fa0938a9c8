/** The result of one check. */
export interface Finding {
  /** What was checked, in a word: `fsync`, `lane interactive`. */
  readonly check: string
  /** `problem`: a guarantee is at risk. `warning`: it will be at risk, or speed suffers. `note`: for information. */
  readonly level: 'ok' | 'note' | 'warning' | 'problem'
  readonly found: string
  /** What to do about it. */
  readonly advice?: string
}

export type Check<Patient> = (patient: Patient) => Promise<Finding[]>

export function ok(check: string, found: string): Finding {
  return { check, level: 'ok', found }
}
