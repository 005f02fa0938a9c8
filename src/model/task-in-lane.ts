/** A task in a lane as one text, for maps: how fast jobs end, and how many are assigned, is kept for each. */
export function taskInLane(task: string, lane: string): string {
  return `${task}\n${lane}`
}
