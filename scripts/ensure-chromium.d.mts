/** The browser of `SLUICE_CHROMIUM`, or one in its usual place. */
export function findChromium(): string | undefined
/** What to do when there is none. */
export const NO_CHROMIUM: string
