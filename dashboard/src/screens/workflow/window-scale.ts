/** How many places the track of a window shows: twice what is used, so that there is room to pull; no more than there are. */
export function scaleOf(used: number, total: number): number {
  const wanted = Math.max(10, roundUp(used * 2))
  return Math.max(1, used, Math.min(wanted, total))
}

/** The next round number: a scale that changes with every child would make the frame dance, one that doubles would leap. */
const ROUND = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]

function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)))
  return ROUND.map((each) => each * power).find((each) => each >= value) ?? value
}

/** The size after a key of a slider; `undefined` for any other key. */
export function nextSize(key: string, size: number, scale: number): number | undefined {
  const large = Math.max(1, Math.round(scale / 10))
  const steps: Readonly<Record<string, number>> = {
    ArrowRight: size + 1,
    ArrowUp: size + 1,
    ArrowLeft: size - 1,
    ArrowDown: size - 1,
    PageUp: size + large,
    PageDown: size - large,
    Home: 0,
    End: scale,
  }
  const next = Object.hasOwn(steps, key) ? steps[key] : undefined
  return next === undefined ? undefined : Math.max(0, next)
}
