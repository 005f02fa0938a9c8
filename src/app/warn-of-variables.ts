import type { Log } from '../engine/log.ts'
import { unknownVariables } from '../model/settings.ts'
import { UNKNOWN_VARIABLE } from '../model/unknown-variables.ts'

/** The variables that this process has already warned about, because a program may open Sluice many times. */
const warned = new Set<string>()

/** Warns once about each variable that looks like one of Sluice's and has no effect. */
export function warnOfVariables(environment: NodeJS.ProcessEnv, log: Log): void {
  for (const variable of unknownVariables(environment)) {
    if (warned.has(variable)) continue
    warned.add(variable)
    log.warn({ variable }, `${variable} ${UNKNOWN_VARIABLE}`)
  }
}
