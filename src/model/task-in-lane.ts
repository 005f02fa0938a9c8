/** A map key for a task in a lane. Throughput and prefetch are tracked per key. */
export function taskInLane(task: string, lane: string): string {
  return `${task}\n${lane}`
}
