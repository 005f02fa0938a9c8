/** `2026-11-16 03:00`: a moment as the clocks of a zone show it. */
export function zoneClock(at: Date, timeZone: string): string {
  return new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'short' }).format(at)
}
