/** `1 job`, `1,204 jobs`: a number with what it counts, and the verb where that changes too: `1 job waits`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString()} ${number === 1 ? one : many}`
}
