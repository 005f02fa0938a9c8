import cronstrue from 'cronstrue'

/** A cron expression in words; as it stands where it cannot be told. */
export function cronWords(cron: string): string {
  try {
    return cronstrue.toString(cron, { use24HourTimeFormat: true, verbose: false })
  } catch {
    return cron
  }
}
