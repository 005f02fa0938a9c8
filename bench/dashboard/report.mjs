// One line for each figure: what, how much, the goal, whether it was met.
let missed = 0

export function tell(what, value, goal = '', met = undefined) {
  if (met === false) missed += 1
  const verdict = met === undefined ? '' : met ? 'met' : 'MISSED'
  console.log(`${what.padEnd(44)} ${String(value).padEnd(64)} ${goal.padEnd(10)} ${verdict}`.trimEnd())
}

export function countMissed() {
  return missed
}

export function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]
}
