/** `1 job`, `1,204 jobs`: a number with what it counts. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString()} ${word(number, one, many)}`
}

/** The word alone, where the number stands elsewhere or the verb follows it: `waits` or `wait`. */
export function word(number: number, one: string, many = `${one}s`): string {
  return number === 1 ? one : many
}
