import { useCallback, useEffect, useState } from 'react'

/** How often the stream of something had to be opened, and when it was over the last time, by the clock of this browser. */
export interface Rounds {
  readonly id: string
  readonly round: number
  readonly overAt: number | undefined
}

/**
 * The next round, once what has ended is under way again: somebody has retried it.
 *
 * @param underWay As it was known at `knownAt`. An answer from before the end says nothing about what came after it.
 */
export function nextRound(rounds: Rounds, id: string, underWay: boolean, knownAt: number): Rounds {
  if (rounds.id !== id) return { id, round: 0, overAt: undefined }
  if (rounds.overAt === undefined || !underWay || knownAt <= rounds.overAt) return rounds
  return { id, round: rounds.round + 1, overAt: undefined }
}

/** A number that goes up whenever the stream has to be opened anew; and whom to tell that it is over. */
export function useRounds(
  id: string,
  underWay: boolean,
  knownAt: number,
): { round: number; onOver: () => void } {
  const [rounds, setRounds] = useState<Rounds>({ id, round: 0, overAt: undefined })
  useEffect(() => setRounds((before) => nextRound(before, id, underWay, knownAt)), [id, underWay, knownAt])
  const onOver = useCallback(
    () => setRounds((before) => (before.id === id ? { ...before, overAt: Date.now() } : before)),
    [id],
  )
  return { round: rounds.id === id ? rounds.round : 0, onOver }
}
