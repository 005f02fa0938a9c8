/** How many of the first items have room together, at least one: the sizes before the last of them add up to no more than `room`. */
export function countFitting<T>(items: readonly T[], room: number, sizeOf: (item: T) => number): number {
  let size = 0
  for (let i = 0; i < items.length; i++) {
    size += sizeOf(items[i]!)
    if (i > 0 && size > room) return i
  }
  return items.length
}
